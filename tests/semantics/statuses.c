// What MPI_Status and requests say of writes.
#include <stdio.h>
#include <string.h>

#include "semantics.h"

enum { INTS = 1000 };
static int ints[INTS];
static MPI_Datatype strided;  // in memory: 3 ints of 5

static void make_ints(int seed) {
  for (int i = 0; i < INTS; ++i) ints[i] = 1000000 * seed + 1000 * rank + i;
}

typedef struct {
  const char* name;
  int count;
  MPI_Datatype type;
} Data;

enum { DATA = 4 };
static void make_data(Data* data) {
  MPI_Datatype three = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_create_resized(three, 0, 5 * (MPI_Aint)sizeof(int), &strided);
  MPI_Type_commit(&strided);
  MPI_Type_free(&three);
  data[0] = (Data){"nothing", 0, MPI_INT};
  data[1] = (Data){"ints", 100, MPI_INT};
  data[2] = (Data){"strided", 20, strided};
  data[3] = (Data){"bytes", 7, MPI_BYTE};
}

static void tell_data(const Data* data) {
  tell("%s:", data->name);
}

#define TELL(call, ...)                             \
  do {                                              \
    forget_status(&status);                         \
    tell_code(#call, MPI_File_##call(__VA_ARGS__)); \
    tell_status(#call, &status, data[i].type);      \
  } while (0)

static void blocking(void) {
  Data data[DATA];
  MPI_Status status;
  MPI_File file = create_file("file");
  make_data(data);
  for (int i = 0; i < DATA; ++i) {
    make_ints(i);
    tell_data(&data[i]);
    tell_code("seek", MPI_File_seek(file, 100000 * (MPI_Offset)rank + 10000 * i, MPI_SEEK_SET));
    TELL(write, file, ints, data[i].count, data[i].type, &status);
    TELL(write_all, file, ints, data[i].count, data[i].type, &status);
    TELL(write_at, file, 300000 + 100000 * (MPI_Offset)rank, ints, data[i].count, data[i].type, &status);
    TELL(write_at_all, file, 600000 + 100000 * (MPI_Offset)rank + 10000 * i, ints, data[i].count, data[i].type,
         &status);
    barrier();
  }
  close_file(&file);
  MPI_Type_free(&strided);
}

// Their order is open, so all ranks write the same.
static void shared(void) {
  Data data[DATA];
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Offset position = -1;
  MPI_File file = create_file("file");
  make_data(data);
  memset(ints, 7, sizeof ints);
  for (int i = 0; i < DATA; ++i) {
    tell_data(&data[i]);
    TELL(write_shared, file, ints, data[i].count, data[i].type, &status);
    const int code = MPI_File_iwrite_shared(file, ints, data[i].count, data[i].type, &request);
    if (tell_code("iwrite_shared", code) == MPI_SUCCESS) {
      forget_status(&status);
      tell_code("wait", MPI_Wait(&request, &status));
      tell_status("iwrite_shared", &status, data[i].type);
    }
    barrier();
    tell_code("position", MPI_File_get_position_shared(file, &position));
    tell("%lld", (long long)position);
    barrier();
    TELL(write_ordered, file, ints, data[i].count, data[i].type, &status);
    tell_code("begin", MPI_File_write_ordered_begin(file, ints, data[i].count, data[i].type));
    TELL(write_ordered_end, file, ints, &status);
    barrier();
  }
  tell_code("position", MPI_File_get_position_shared(file, &position));
  tell("%lld", (long long)position);
  close_file(&file);
  MPI_Type_free(&strided);
}

static void split(void) {
  Data data[DATA];
  MPI_Status status;
  MPI_Offset position = -1;
  MPI_File file = create_file("file");
  make_data(data);
  for (int i = 0; i < DATA; ++i) {
    make_ints(i);
    tell_data(&data[i]);
    tell_code("seek", MPI_File_seek(file, 100000 * (MPI_Offset)rank + 10000 * i, MPI_SEEK_SET));
    tell_code("begin", MPI_File_write_all_begin(file, ints, data[i].count, data[i].type));
    tell_code("second begin", MPI_File_write_all_begin(file, ints, data[i].count, data[i].type));
    TELL(write_all_end, file, ints, &status);
    tell_code("position", MPI_File_get_position(file, &position));
    tell("%lld", (long long)position);
    tell_code("begin",
              MPI_File_write_at_all_begin(file, 400000 + 100000 * (MPI_Offset)rank, ints, data[i].count, data[i].type));
    TELL(write_at_all_end, file, ints, &status);
  }
  close_file(&file);
  MPI_Type_free(&strided);
}

static int bytes_of(MPI_Status* status) {
  int bytes = -1;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  return bytes;
}

static void nonblocking(void) {
  Data data[DATA];
  MPI_Status status, early;
  MPI_File file = create_file("file");
  make_data(data);
  for (int i = 0; i < DATA; ++i) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    make_ints(i);
    tell_data(&data[i]);
    tell_code("iwrite_at", MPI_File_iwrite_at(file, 100000 * (MPI_Offset)rank + 10000 * i, ints, data[i].count,
                                              data[i].type, &request));
    // With MPICH 4.0 this never becomes true for writes, however often it is asked.
    forget_status(&early);
    for (int tries = 0; !done && tries < 1000; ++tries) MPI_Request_get_status(request, &done, &early);
    forget_status(&status);
    tell_code("wait", MPI_Wait(&request, &status));
    tell_status("iwrite_at", &status, data[i].type);
    tell("as told before: %d", !done || bytes_of(&early) == bytes_of(&status));
    tell("null %d", request == MPI_REQUEST_NULL);
    forget_status(&status);
    tell_code("wait for nothing", MPI_Wait(&request, &status));
    tell_status("nothing", &status, data[i].type);

    tell_code("seek", MPI_File_seek(file, 400000 + 100000 * (MPI_Offset)rank + 10000 * i, MPI_SEEK_SET));
    tell_code("iwrite", MPI_File_iwrite(file, ints, data[i].count, data[i].type, &request));
    forget_status(&status);
    for (done = 0; !done;) MPI_Test(&request, &done, &status);
    tell_status("iwrite", &status, data[i].type);

    tell_code("iwrite_all", MPI_File_iwrite_all(file, ints, data[i].count, data[i].type, &request));
    tell_code("wait", MPI_Wait(&request, MPI_STATUS_IGNORE));
    tell_code("iwrite_at_all", MPI_File_iwrite_at_all(file, 800000 + 100000 * (MPI_Offset)rank, ints, data[i].count,
                                                      data[i].type, &request));
    forget_status(&status);
    tell_code("wait", MPI_Wait(&request, &status));
    tell_status("iwrite_at_all", &status, data[i].type);
  }
  close_file(&file);
  MPI_Type_free(&strided);
}

// Several on their way, completed together, while others are written and beside requests of messages.
static void several_pending(void) {
  enum { MANY = 8 };
  MPI_Request requests[MANY + 1];
  MPI_Status statuses[MANY + 1];
  MPI_File file = create_file("file");
  int index = -1, left = MANY, received = 0;
  make_ints(1);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < MANY; ++i) {
      const MPI_Offset at = 200000 * (MPI_Offset)(round * ranks + rank) + 10000 * i;
      tell_code("iwrite_at", MPI_File_iwrite_at(file, at, ints, 10 + i, MPI_INT, &requests[i]));
      forget_status(&statuses[i]);
    }
    MPI_Irecv(&received, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[MANY]);
    MPI_Send(&round, 1, MPI_INT, rank, 3, MPI_COMM_WORLD);
    write_block(file, 20 + rank, rank);
    if (round == 0) {
      tell_code("waitall", MPI_Waitall(MANY + 1, requests, statuses));
      for (int i = 0; i < MANY; ++i) tell_status("one of all", &statuses[i], MPI_INT);
    } else if (round == 1) {
      int count = 0;
      while (MPI_Waitany(MANY, requests, &index, statuses) == MPI_SUCCESS && index != MPI_UNDEFINED) ++count;
      tell("waited for %d", count);
    } else if (round == 2) {
      int indices[MANY], some = 0;
      for (left = MANY; left > 0; left -= some) MPI_Testsome(MANY, requests, &some, indices, statuses);
      tell("left %d", left);
    } else {
      tell_code("waitall", MPI_Waitall(MANY, requests, statuses));
    }
    for (int i = 0; i < MANY; ++i) tell("null %d", requests[i] == MPI_REQUEST_NULL);
    if (round > 0) MPI_Wait(&requests[MANY], MPI_STATUS_IGNORE);
    tell("received %d", received);
    tell_code("sync", MPI_File_sync(file));
  }
  close_file(&file);
}

static void ignored(void) {
  MPI_File file = create_file("file");
  make_ints(2);
  tell_code("write", MPI_File_write_at(file, 5000 * (MPI_Offset)rank, ints, 500, MPI_INT, MPI_STATUS_IGNORE));
  tell_code("write_all", MPI_File_write_at_all(file, 5000 * (MPI_Offset)rank, ints, 500, MPI_INT, MPI_STATUS_IGNORE));
  close_file(&file);
}

static void in_a_view(void) {
  Data data[DATA];
  MPI_Status status;
  MPI_Datatype type = interleaved(4, 5, MPI_BYTE);
  MPI_File file = create_file("file");
  make_data(data);
  tell_code("set_view", MPI_File_set_view(file, 13 + 5 * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
  for (int i = 0; i < DATA; ++i) {
    make_ints(i);
    tell_data(&data[i]);
    TELL(write, file, ints, data[i].count, data[i].type, &status);
    TELL(write_all, file, ints, data[i].count, data[i].type, &status);
    TELL(write_at, file, 3000, ints, data[i].count, data[i].type, &status);
    TELL(write_at_all, file, 6000, ints, data[i].count, data[i].type, &status);
    barrier();
  }
  close_file(&file);
  MPI_Type_free(&type);
  MPI_Type_free(&strided);
}

// The twins with large counts.
static void large_counts(void) {
#if MPI_VERSION >= 4
  enum { i = 0 };
  const Data data[1] = {{"ints", INTS, MPI_INT}};
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Count count = 0;
  MPI_File file = create_file("file");
  make_ints(3);
  tell_code("seek", MPI_File_seek(file, 200000 * (MPI_Offset)rank, MPI_SEEK_SET));
  TELL(write_c, file, ints, (MPI_Count)INTS, MPI_INT, &status);
  TELL(write_all_c, file, ints, (MPI_Count)INTS, MPI_INT, &status);
  TELL(write_at_c, file, 50000 + 200000 * (MPI_Offset)rank, ints, (MPI_Count)INTS, MPI_INT, &status);
  TELL(write_at_all_c, file, 60000 + 200000 * (MPI_Offset)rank, ints, (MPI_Count)INTS, MPI_INT, &status);
  MPI_Get_count_c(&status, MPI_INT, &count);
  tell("%lld", (long long)count);
  forget_status(&status);
  tell_code("iwrite_at_c",
            MPI_File_iwrite_at_c(file, 70000 + 200000 * (MPI_Offset)rank, ints, (MPI_Count)INTS, MPI_INT, &request));
  tell_code("wait", MPI_Wait(&request, &status));
  tell_status("iwrite_at_c", &status, MPI_INT);
  tell_code("negative", MPI_File_write_c(file, ints, (MPI_Count)-1, MPI_INT, &status));
  close_file(&file);
#else
  tell("unsupported");
#endif
}

const Case kStatuses[] = {{"blocking", blocking},
                          {"shared", shared},
                          {"split", split},
                          {"nonblocking", nonblocking},
                          {"several_pending", several_pending},
                          {"ignored", ignored},
                          {"in_a_view", in_a_view},
                          {"large_counts", large_counts},
                          {NULL, NULL}};
