// What the cases share: see semantics.h.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "semantics.h"

int rank, ranks = 1, threads_level = MPI_THREAD_SINGLE;
char block[BLOCK];
MPI_Errhandler file_handler, comm_handler;

static char transcript[NAME];

void open_transcript(const char* start) {
  char directory[NAME / 2];
  if (getcwd(directory, sizeof directory) == NULL) fail("getcwd", strerror(errno));
  snprintf(transcript, sizeof transcript, "%s/%s", directory, start);
}

// Written line by line: a crash must not take along what was said before it. Kept open: the program may not be allowed
// to open it later. The rank is not known before MPI is.
static int transcript_of(int of_rank) {
  static int file = -1, opened_for = -1;
  if (file >= 0 && opened_for == of_rank) return file;
  char name[NAME + 16];
  if (file >= 0) close(file);
  snprintf(name, sizeof name, "%s.%d", transcript, of_rank);
  file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) fail(name, strerror(errno));
  opened_for = of_rank;
  return file;
}

void tell(const char* format, ...) {
  char line[NAME];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  strcat(line, "\n");
  if (write(transcript_of(rank), line, strlen(line)) != (ssize_t)strlen(line)) fail(transcript, strerror(errno));
}

void fail(const char* what, const char* why) {
  fprintf(stderr, "semantics_client: rank %d: %s: %s\n", rank, what, why);
  exit(3);
}

#define CLASS(name) \
  { MPI_##name, #name }
const char* class_name(int code) {
  static const struct {
    int number;
    const char* name;
  } classes[] = {CLASS(SUCCESS),         CLASS(ERR_ACCESS),
                 CLASS(ERR_AMODE),       CLASS(ERR_ARG),
                 CLASS(ERR_BAD_FILE),    CLASS(ERR_BUFFER),
                 CLASS(ERR_COMM),        CLASS(ERR_CONVERSION),
                 CLASS(ERR_COUNT),       CLASS(ERR_DUP_DATAREP),
                 CLASS(ERR_FILE),        CLASS(ERR_FILE_EXISTS),
                 CLASS(ERR_FILE_IN_USE), CLASS(ERR_INFO),
                 CLASS(ERR_INTERN),      CLASS(ERR_IO),
                 CLASS(ERR_IN_STATUS),   CLASS(ERR_NOT_SAME),
                 CLASS(ERR_NO_SPACE),    CLASS(ERR_NO_SUCH_FILE),
                 CLASS(ERR_OTHER),       CLASS(ERR_PENDING),
                 CLASS(ERR_QUOTA),       CLASS(ERR_READ_ONLY),
                 CLASS(ERR_REQUEST),     CLASS(ERR_TYPE),
                 CLASS(ERR_UNKNOWN),     CLASS(ERR_UNSUPPORTED_DATAREP),
                 CLASS(ERR_TRUNCATE),    CLASS(ERR_UNSUPPORTED_OPERATION)};
  int class = code;
  MPI_Error_class(code, &class);
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; ++i) {
    if (classes[i].number == class) return classes[i].name;
  }
  return "another class";
}

// Handles and addresses are of one run.
static void blot_out_numbers(char* text) {
  char* to = text;
  for (const char* from = text; *from != '\0';) {
    const int hexadecimal = from[0] == '0' && from[1] == 'x';
    *to++ = *from == '\n' ? '|' : *from;
    ++from;
    if (!hexadecimal) continue;
    *to++ = *from++;
    while (isxdigit((unsigned char)*from)) ++from;
  }
  *to = '\0';
}

int tell_code(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (code == MPI_SUCCESS) {
    tell("%s: SUCCESS", what);
    return code;
  }
  // MPICH has its errors' texts in a ring that overflows, and finds nothing there for codes that came from other ranks.
  if (ranks == 1) MPI_Error_string(code, text, &length);
  blot_out_numbers(text);
  tell("%s: %s: %s", what, class_name(code), text);
  return code;
}

void fill(int seed) {
  uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < BLOCK; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    block[i] = (char)state;
  }
}

MPI_File open_file(const char* name, int mode) {
  MPI_File file = MPI_FILE_NULL;
  tell_code("MPI_File_open", MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
  return file;
}

MPI_File create_file(const char* name) {
  return open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
}

void write_block(MPI_File file, int number, int seed) {
  fill(seed);
  tell_code("MPI_File_write_at",
            MPI_File_write_at(file, (MPI_Offset)number * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

void close_file(MPI_File* file) {
  tell_code("MPI_File_close", MPI_File_close(file));
  if (*file != MPI_FILE_NULL) tell("the handle is still there");
}

MPI_Datatype interleaved(int blocks, int length, MPI_Datatype etype) {
  MPI_Datatype spread = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_get_extent(etype, &lower, &extent);
  MPI_Type_vector(blocks, length, length * ranks, etype, &spread);
  MPI_Type_create_resized(spread, 0, blocks * length * ranks * extent, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&spread);
  return type;
}

void make_plain(const char* name, const char* content) {
  const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const ssize_t length = (ssize_t)strlen(content);
  if (file < 0 || write(file, content, (size_t)length) != length || close(file) != 0) fail(name, strerror(errno));
}

void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static void on_file(MPI_File* file, int* code, ...) {
  tell("  handler of %s called: %s", *file == MPI_FILE_NULL ? "MPI_FILE_NULL" : "a file", class_name(*code));
}

static void on_comm(MPI_Comm* comm, int* code, ...) {
  const char* name = *comm == MPI_COMM_WORLD ? "MPI_COMM_WORLD" : *comm == MPI_COMM_SELF ? "MPI_COMM_SELF" : "another";
  tell("  handler of communicator %s called: %s", name, class_name(*code));
}

// Never freed: MPICH 4.0 counts the uses of one that was set on MPI_FILE_NULL wrongly, and aborts.
void make_handlers(void) {
  MPI_File_create_errhandler(on_file, &file_handler);
  MPI_Comm_create_errhandler(on_comm, &comm_handler);
}

// Calls with one status leave MPI_ERROR as it was.
enum { UNTOUCHED = 4711 };

void forget_status(MPI_Status* status) {
  memset(status, 0x5a, sizeof *status);
  status->MPI_ERROR = UNTOUCHED;
}

void tell_status(const char* what, MPI_Status* status, MPI_Datatype type) {
  int count = -77, elements = -77, bytes = -77, cancelled = -77;
  MPI_Get_count(status, type, &count);
  MPI_Get_count(status, MPI_BYTE, &bytes);
  MPI_Get_elements(status, type, &elements);
  MPI_Test_cancelled(status, &cancelled);
  tell("  status of %s: count %d%s, elements %d, bytes %d, cancelled %d, error %s", what, count,
       count == MPI_UNDEFINED ? " (undefined)" : "", elements, bytes, cancelled,
       status->MPI_ERROR == UNTOUCHED ? "untouched" : class_name(status->MPI_ERROR));
}
