// pnetcdf_client: PnetCDF. The modes differ in the calls that write: blocking collective ones, nonblocking ones
// completed together, record variables written in turns, and a header that grows so that enddef moves all data.
// --again opens the file, writes a part over and (records) adds records, (redefine) moves the data once more.
#include <pnetcdf.h>

#include "client.h"

enum { ROWS = 480, COLUMNS = 300, RECORDS = 120, RECORDS_AGAIN = 30, UPDATED_ROWS = 40 };
enum { FIELD = 1, OTHER = 2, UPDATE = 3 };

static const char* const kModes[] = {"blocking", "independent", "nonblocking", "records", "redefine", NULL};

static void checked(int code, const char* call) {
  if (code != NC_NOERR) fail("%s: %s", call, ncmpi_strerror(code));
}
#define P(call) checked(call, #call)

typedef struct {
  int file;
  int field;
  int other;
} Vars;

/// This rank's share of `rows` rows.
static void share(MPI_Offset rows, MPI_Offset* start_at, MPI_Offset* count) {
  start_at[0] = rows * client.rank / client.ranks;
  count[0] = rows * (client.rank + 1) / client.ranks - start_at[0];
  start_at[1] = 0;
  count[1] = COLUMNS;
}

static void put(const Vars* v, int var, int seed, const MPI_Offset* start_at, const MPI_Offset* count) {
  int32_t* data = values(seed, start_at[0] * COLUMNS + start_at[1], count[0] * count[1]);
  if (mode_is("nonblocking")) {
    // In two halves, so that there is something to be completed together.
    const MPI_Offset half[] = {count[0] / 2, count[1]};
    const MPI_Offset rest[] = {count[0] - half[0], count[1]};
    const MPI_Offset rest_start[] = {start_at[0] + half[0], start_at[1]};
    int requests[2];
    int codes[2];
    P(ncmpi_iput_vara_int(v->file, var, rest_start, rest, data + half[0] * COLUMNS, &requests[0]));
    P(ncmpi_iput_vara_int(v->file, var, start_at, half, data, &requests[1]));
    P(ncmpi_wait_all(v->file, 2, requests, codes));
    P(codes[0]);
    P(codes[1]);
  } else if (mode_is("independent")) {
    P(ncmpi_begin_indep_data(v->file));
    P(ncmpi_put_vara_int(v->file, var, start_at, count, data));
    P(ncmpi_end_indep_data(v->file));
  } else {
    P(ncmpi_put_vara_int_all(v->file, var, start_at, count, data));
  }
  free(data);
}

static void compare(const Vars* v, int var, const char* name, int seed, const MPI_Offset* start_at,
                    const MPI_Offset* count) {
  int32_t* data = calloc((size_t)(count[0] * count[1]) + 1, sizeof *data);
  if (!data) fail("out of memory");
  P(ncmpi_get_vara_int_all(v->file, var, start_at, count, data));
  expect_values(name, data, seed, start_at[0] * COLUMNS + start_at[1], count[0] * count[1]);
  free(data);
}

/// One record is a row, so every rank writes a part of each.
static void record(const Vars* v, int var, const char* name, int seed, int number) {
  const MPI_Offset start_at[] = {number, COLUMNS * client.rank / client.ranks};
  const MPI_Offset count[] = {1, COLUMNS * (client.rank + 1) / client.ranks - start_at[1]};
  if (client.check) {
    compare(v, var, name, seed, start_at, count);
  } else {
    put(v, var, seed, start_at, count);
  }
}

static void records(const Vars* v, int from, int to) {
  for (int i = from; i < to; ++i) {
    record(v, v->field, "field", FIELD, i);
    record(v, v->other, "other", OTHER, i);
  }
}

static void rows(const Vars* v, int var, const char* name, int seed, MPI_Offset count_of_rows) {
  MPI_Offset start_at[2];
  MPI_Offset count[2];
  share(count_of_rows, start_at, count);
  if (client.check) {
    compare(v, var, name, seed, start_at, count);
  } else {
    put(v, var, seed, start_at, count);
  }
}

/// A header larger than what was left room for: everything behind it has to move.
static void grow_header(int file, const char* name) {
  enum { LENGTH = 9000 };
  static char text[LENGTH];
  memset(text, 'x', sizeof text);
  P(ncmpi_redef(file));
  P(ncmpi_put_att_text(file, NC_GLOBAL, name, LENGTH, text));
  P(ncmpi_enddef(file));
}

static void first_run(void) {
  Vars v;
  int dims[2];
  P(ncmpi_create(MPI_COMM_WORLD, client.file, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &v.file));
  P(ncmpi_def_dim(v.file, "row", mode_is("records") ? NC_UNLIMITED : ROWS, &dims[0]));
  P(ncmpi_def_dim(v.file, "column", COLUMNS, &dims[1]));
  P(ncmpi_def_var(v.file, "field", NC_INT, 2, dims, &v.field));
  P(ncmpi_def_var(v.file, "other", NC_INT, 2, dims, &v.other));
  P(ncmpi_put_att_text(v.file, NC_GLOBAL, "title", 4, "lzy?"));
  P(ncmpi_enddef(v.file));
  if (mode_is("records")) {
    records(&v, 0, RECORDS / 2);
    P(ncmpi_sync(v.file));
    pause_here();
    records(&v, RECORDS / 2, RECORDS);
  } else {
    rows(&v, v.field, "field", FIELD, ROWS);
    P(ncmpi_sync(v.file));
    pause_here();
    if (mode_is("redefine")) grow_header(v.file, "grown");
    rows(&v, v.other, "other", OTHER, ROWS);
  }
  P(ncmpi_close(v.file));
}

static void open_file(Vars* v, int mode) {
  P(ncmpi_open(MPI_COMM_WORLD, client.file, mode, MPI_INFO_NULL, &v->file));
  P(ncmpi_inq_varid(v->file, "field", &v->field));
  P(ncmpi_inq_varid(v->file, "other", &v->other));
}

static void second_run(void) {
  Vars v;
  open_file(&v, NC_WRITE);
  if (mode_is("redefine")) grow_header(v.file, "grown again");
  if (mode_is("records")) {
    records(&v, RECORDS, RECORDS + RECORDS_AGAIN);
  } else {
    rows(&v, v.field, "field", UPDATE, UPDATED_ROWS);
  }
  P(ncmpi_sync(v.file));
  pause_here();
  P(ncmpi_close(v.file));
}

static void check(void) {
  Vars v;
  open_file(&v, NC_NOWRITE);
  if (mode_is("records")) {
    records(&v, 0, client.again ? RECORDS + RECORDS_AGAIN : RECORDS);
  } else {
    rows(&v, v.other, "other", OTHER, ROWS);
    if (client.again) rows(&v, v.field, "field", UPDATE, UPDATED_ROWS);
    // What the second run left alone.
    const MPI_Offset start_at[] = {UPDATED_ROWS, 0};
    const MPI_Offset count[] = {ROWS - UPDATED_ROWS, COLUMNS};
    compare(&v, v.field, "field", FIELD, start_at, count);
  }
  P(ncmpi_close(v.file));
}

int main(int argc, char** argv) {
  return run_client(argc, argv, kModes, first_run, second_run, check);
}
