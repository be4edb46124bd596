// Makes a file, gives it its view, and writes the rounds of blocks.
#include <stddef.h>

#include "write_calls.h"

MPI_File open_as(MPI_Comm comm, const char* name, int mode) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file), "MPI_File_open");
  return file;
}

MPI_File create(const char* name) {
  return open_as(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
}

void close_file(MPI_File* file) {
  check(MPI_File_close(file), "MPI_File_close");
}

void size_first(const Run* run, MPI_File file) {
  if (run->view && !run->unsized) check(MPI_File_set_size(file, file_bytes(run)), "MPI_File_set_size");
}

void set_view(const Run* run, MPI_File file, bool same_for_all) {
  if (!run->view) return;
  const int elements = PIECE / run->element_bytes;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_vector(ROUNDS * PIECES_IN_BLOCK, same_for_all ? run->ranks * elements : elements,
                        (run->ranks + 1) * elements, run->element, &type),
        "MPI_Type_vector");
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  const MPI_Offset begin = same_for_all ? 0 : (MPI_Offset)run->rank * PIECE;
  check(MPI_File_set_view(file, begin, run->element, type, "native", MPI_INFO_NULL), "MPI_File_set_view");
  check(MPI_Type_free(&type), "MPI_Type_free");
}

void check_moved(const Run* run, const MPI_Status* status, const char* call) {
  int count = 0;
  check(MPI_Get_count(status, run->element, &count), "MPI_Get_count");
  if (count != BLOCK / run->element_bytes) fail("%s: %d of %d elements", call, count, BLOCK / run->element_bytes);
}

MPI_Offset offset_of(const Run* run, int round) {
  const MPI_Offset block = run->view ? round : (MPI_Offset)round * run->ranks + run->rank;
  return block * (BLOCK / run->element_bytes);
}

void write_rounds(const Run* run, const Call* call, MPI_File file, int first, int end) {
  MPI_Request requests[ROUNDS];
  for (int round = first; round < end; ++round) {
    const char* data = run->stream + (size_t)round * BLOCK;
    const MPI_Offset at = offset_of(run, round);
    MPI_Status status;
    if (call->place == OWN_POINTER) check(MPI_File_seek(file, at, MPI_SEEK_SET), "MPI_File_seek");
    check(initiate(call, file, at, data, BLOCK / run->element_bytes, run->element, &status, &requests[round]),
          call->name);
    if (call->form == NONBLOCKING || call->form == NONBLOCKING_AT) continue;
    if (call->end) check(call->end(file, data, &status), call->name);
    check_moved(run, &status, call->name);
  }
  if (call->form != NONBLOCKING && call->form != NONBLOCKING_AT) return;
  for (int round = first; round < end; ++round) {
    MPI_Status status;
    check(MPI_Wait(&requests[round], &status), call->name);
    check_moved(run, &status, call->name);
  }
}

void write_file(const Run* run, const Call* call, const char* name) {
  MPI_File file = create(name);
  size_first(run, file);
  set_view(run, file, shared_pointer(call));
  write_rounds(run, call, file, 0, ROUNDS);
  close_file(&file);
}

const Call* usual_call(void) {
  return find_call("write_at_all");
}
