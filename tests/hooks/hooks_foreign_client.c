// A program of the other MPI.
int foreign_main(void);
int main(void) {
  return foreign_main();
}
