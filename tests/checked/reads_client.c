// reads_client CALL SHAPE FILE [rdwr|rdonly [WORDS]]: reads all of FILE by one kind of call, and tells whether what it got is right. Every
// 64-bit word of FILE says which word it is, so this needs nothing else to know: reads_client make FILE BYTES makes such a
// file, without MPI-IO. CALL rewrite: rank 0 writes into the file, and reads that before and after MPI_File_sync. It knows nothing about lzy. Each rank prints one line:
//   RANK right WORDS | RANK wrong WORD | RANK short WORDS | RANK error CLASS TEXT
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// CALL: the name of the MPI call without MPI_File_, of a split one without _begin. SHAPE: how view and buffer look.
enum shape { PLAIN, STRIDED, HOLES };
enum { CHUNK = 5000, STRIDE = 625, GAP = 3 };  // words

static const uint64_t factor = 0x9e3779b97f4a7c15u;  // odd: different for every word
static int rank, ranks;

struct job {
  const char* call;
  enum shape shape;
  MPI_File file;
  uint64_t words;  // of the file
  uint64_t right, short_of, wrong, first_wrong;
  MPI_Datatype type;  // of a chunk in the buffer
  int per_element;    // words in one element of `type`
  uint64_t* buffer;
};

static int make(const char* path, uint64_t bytes) {
  FILE* out = fopen(path, "wb");
  if (out == NULL) return 1;
  for (uint64_t i = 0; i < (bytes + 7) / 8; ++i) {
    const uint64_t word = (i + 1) * factor;
    if (fwrite(&word, 1, bytes - 8 * i < 8 ? bytes - 8 * i : 8, out) == 0) return 1;
  }
  return fclose(out);
}

static void end(const char* format, unsigned long long number) {
  char line[80];
  snprintf(line, sizeof line, format, number);
  printf("%d %s\n", rank, line);
  fflush(stdout);
}

static int is(const struct job* job, const char* call) {
  return strcmp(job->call, call) == 0;
}

static int complete(int code, MPI_Request* request, MPI_Status* status) {
  MPI_Status statuses[2];
  MPI_Request both[2] = {MPI_REQUEST_NULL, *request};
  if (code != MPI_SUCCESS) return code;
  code = MPI_Waitall(2, both, statuses);
  *request = both[1];
  *status = statuses[1];
  return code == MPI_ERR_IN_STATUS ? statuses[1].MPI_ERROR : code;
}

// Reads `count` elements into the buffer; `at` is where, in words of the view, for calls that want to know.
static int read_chunk(struct job* job, MPI_Offset at, int count, MPI_Status* status) {
  MPI_Request request = MPI_REQUEST_NULL;
  void* const buffer = job->buffer;
  MPI_File file = job->file;
  MPI_Datatype type = job->type;
  int code = MPI_ERR_OTHER;
  if (is(job, "read")) return MPI_File_read(file, buffer, count, type, status);
  if (is(job, "read_all")) return MPI_File_read_all(file, buffer, count, type, status);
  if (is(job, "read_at")) return MPI_File_read_at(file, at, buffer, count, type, status);
  if (is(job, "read_at_all")) return MPI_File_read_at_all(file, at, buffer, count, type, status);
  if (is(job, "read_shared")) return MPI_File_read_shared(file, buffer, count, type, status);
  if (is(job, "read_ordered")) return MPI_File_read_ordered(file, buffer, count, type, status);
  if (is(job, "iread")) {
    code = MPI_File_iread(file, buffer, count, type, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
  }
  if (is(job, "iread_at")) return complete(MPI_File_iread_at(file, at, buffer, count, type, &request), &request, status);
  if (is(job, "iread_all")) return complete(MPI_File_iread_all(file, buffer, count, type, &request), &request, status);
  if (is(job, "iread_at_all")) {
    return complete(MPI_File_iread_at_all(file, at, buffer, count, type, &request), &request, status);
  }
  if (is(job, "iread_shared")) return complete(MPI_File_iread_shared(file, buffer, count, type, &request), &request, status);
  if (is(job, "split_all")) {
    code = MPI_File_read_all_begin(file, buffer, count, type);
    return code == MPI_SUCCESS ? MPI_File_read_all_end(file, buffer, status) : code;
  }
  if (is(job, "split_at_all")) {
    code = MPI_File_read_at_all_begin(file, at, buffer, count, type);
    return code == MPI_SUCCESS ? MPI_File_read_at_all_end(file, buffer, status) : code;
  }
  if (is(job, "split_ordered")) {
    code = MPI_File_read_ordered_begin(file, buffer, count, type);
    return code == MPI_SUCCESS ? MPI_File_read_ordered_end(file, buffer, status) : code;
  }
  fprintf(stderr, "reads_client: unknown call %s\n", job->call);
  MPI_Abort(MPI_COMM_WORLD, 3);
  return code;
}

static uint64_t* word_of(struct job* job, uint64_t number) {
  if (job->shape != HOLES) return job->buffer + number;
  return job->buffer + number / STRIDE * (STRIDE + GAP) + number % STRIDE;
}

// The inverse of the factor, by Newton's iteration: what word it is.
static uint64_t number_of(uint64_t word) {
  uint64_t inverse = factor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - factor * inverse;
  return word * inverse - 1;
}

// Which word of the file is word `number` of this rank's view.
static uint64_t in_file(const struct job* job, uint64_t number) {
  if (job->shape != STRIDED) return number;
  return (number / STRIDE * (uint64_t)ranks + (uint64_t)rank) * STRIDE + number % STRIDE;
}

// What was just written is what is to be read, whatever was committed.
static int rewrite(struct job* job) {
  uint64_t mine[2] = {0, 0};
  const MPI_Offset at = 1000;
  int code = MPI_SUCCESS;
  for (int synced = 0; synced < 2 && code == MPI_SUCCESS; ++synced) {
    if (rank == 0 && !synced) code = MPI_File_write_at(job->file, at, mine, 1, MPI_UINT64_T, MPI_STATUS_IGNORE);
    if (synced) code = MPI_File_sync(job->file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) code = MPI_File_read_at(job->file, at, mine, 2, MPI_UINT64_T, MPI_STATUS_IGNORE);
    job->wrong += mine[0] != 0 || number_of(mine[1]) != 1001;
    mine[0] = 1;
    job->right += 2;
  }
  return code;
}

static int go(struct job* job) {
  const int shared = is(job, "read_shared") || is(job, "iread_shared") || is(job, "read_ordered") || is(job, "split_ordered");
  const int strided = job->shape == STRIDED && !shared;
  const uint64_t part = job->words / (uint64_t)ranks;
  uint64_t at = strided || shared ? 0 : part * (uint64_t)rank;
  uint64_t left = shared ? job->words / (uint64_t)ranks : part;
  if (!strided && !shared) {
    int code = MPI_File_seek(job->file, (MPI_Offset)at, MPI_SEEK_SET);
    if (code != MPI_SUCCESS) return code;
  }
  int result = MPI_SUCCESS;
  while (left > 0) {
    const int words = left < CHUNK ? (int)left : CHUNK;
    const int elements = words / job->per_element;
    MPI_Status status;
    int got = 0;
    memset(job->buffer, 0xee, sizeof(uint64_t) * (CHUNK + CHUNK / STRIDE * GAP));
    // Collective calls need all ranks, whatever became of the one before.
    const int code = read_chunk(job, (MPI_Offset)at, elements, &status);
    const uint64_t here = at;
    at += (uint64_t)words;
    left -= (uint64_t)words;
    if (code != MPI_SUCCESS) {
      result = result == MPI_SUCCESS ? code : result;
      continue;
    }
    MPI_Get_elements(&status, MPI_UINT64_T, &got);
    if (got < elements * job->per_element) {
      job->short_of += (uint64_t)(elements * job->per_element - got);
      continue;
    }
    const uint64_t first = shared ? number_of(*word_of(job, 0)) : in_file(job, here);
    for (int i = 0; i < got; ++i) {
      const uint64_t want = shared ? first + (uint64_t)i : in_file(job, here + (uint64_t)i);
      if (number_of(*word_of(job, (uint64_t)i)) != want || want >= job->words) {
        if (job->wrong++ == 0) job->first_wrong = want;
        break;
      }
    }
    job->right += (uint64_t)got;
  }
  return result;
}

int main(int argc, char** argv) {
  struct job job = {0};
  MPI_Offset size = 0;
  if (argc == 4 && strcmp(argv[1], "make") == 0) return make(argv[2], strtoull(argv[3], NULL, 10));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 3);
  job.call = argv[1];
  job.shape = strcmp(argv[2], "strided") == 0 ? STRIDED : strcmp(argv[2], "holes") == 0 ? HOLES : PLAIN;
  const int mode = argc > 4 && strcmp(argv[4], "rdwr") == 0 ? MPI_MODE_RDWR : MPI_MODE_RDONLY;
  int code = MPI_File_open(MPI_COMM_WORLD, argv[3], mode, MPI_INFO_NULL, &job.file);
  if (code == MPI_SUCCESS) {
    MPI_Datatype view = MPI_UINT64_T;
    MPI_File_get_size(job.file, &size);
    job.words = argc > 5 ? strtoull(argv[5], NULL, 10) : (uint64_t)size / sizeof(uint64_t);
    job.words = job.words / ((uint64_t)ranks * STRIDE) * (uint64_t)ranks * STRIDE;
    job.type = MPI_UINT64_T;
    job.per_element = 1;
    job.buffer = malloc(sizeof(uint64_t) * (CHUNK + CHUNK / STRIDE * GAP));
    if (job.shape == STRIDED) {
      MPI_Datatype run;
      MPI_Type_contiguous(STRIDE, MPI_UINT64_T, &run);
      MPI_Type_create_resized(run, 0, (MPI_Aint)sizeof(uint64_t) * STRIDE * ranks, &view);
      MPI_Type_commit(&view);
    }
    if (job.shape == HOLES) {
      MPI_Datatype run;
      MPI_Type_contiguous(STRIDE, MPI_UINT64_T, &run);
      MPI_Type_create_resized(run, 0, (MPI_Aint)sizeof(uint64_t) * (STRIDE + GAP), &job.type);
      MPI_Type_commit(&job.type);
      job.per_element = STRIDE;
    }
    // For shared pointers all ranks have the same view.
    const int shared = strstr(job.call, "shared") != NULL || strstr(job.call, "ordered") != NULL;
    const MPI_Offset start = job.shape == STRIDED && !shared ? (MPI_Offset)sizeof(uint64_t) * STRIDE * rank : 0;
    code = MPI_File_set_view(job.file, start, MPI_UINT64_T, shared ? MPI_UINT64_T : view, "native", MPI_INFO_NULL);
    if (code == MPI_SUCCESS) code = is(&job, "rewrite") ? rewrite(&job) : go(&job);
    MPI_File_close(&job.file);
  }
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING];
    int class = 0, length = 0;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    for (char* c = text; *c != 0; ++c) *c = *c == '\n' ? ' ' : *c;
    printf("%d error %s %s\n", rank, class == MPI_ERR_IO ? "MPI_ERR_IO" : "other", text);
  } else if (job.short_of > 0) {
    end("short %llu", (unsigned long long)job.short_of);
  } else if (job.wrong > 0) {
    end("wrong %llu", (unsigned long long)job.first_wrong);
  } else {
    end("right %llu", (unsigned long long)job.right);
  }
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
