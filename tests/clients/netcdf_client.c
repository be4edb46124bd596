// netcdf_client: NetCDF-4 with parallel access, through HDF5. The modes differ in the layout and in the kind of
// access; `records` has an unlimited dimension. --again opens the file, writes a part over and (records) adds records.
#include <netcdf.h>
#include <netcdf_par.h>

#include "client.h"

enum { ROWS = 480, COLUMNS = 300, RECORDS_AGAIN = 60, UPDATED_ROWS = 40 };
enum { FIELD = 1, UPDATE = 2 };

static const char* const kModes[] = {"contiguous", "independent", "chunked", "deflate", "records", NULL};

static void checked(int code, const char* call) {
  if (code != NC_NOERR) fail("%s: %s", call, nc_strerror(code));
}
#define N(call) checked(call, #call)

/// Writes, or reads and compares, this rank's share of the rows [from, to).
static void rows(int file, int field, int seed, int from, int to) {
  const size_t first = (size_t)(from + (to - from) * client.rank / client.ranks);
  const size_t last = (size_t)(from + (to - from) * (client.rank + 1) / client.ranks);
  const size_t start_at[] = {first, 0};
  const size_t count[] = {last - first, COLUMNS};
  const int64_t many = (int64_t)(count[0] * count[1]);
  int32_t* data = values(seed, (int64_t)first * COLUMNS, many);
  if (client.check) {
    memset(data, 0, (size_t)many * sizeof *data);
    N(nc_get_vara_int(file, field, start_at, count, data));
    expect_values("field", data, seed, (int64_t)first * COLUMNS, many);
  } else {
    N(nc_put_vara_int(file, field, start_at, count, data));
  }
  free(data);
}

static void set_access(int file, int field) {
  N(nc_var_par_access(file, field, mode_is("independent") ? NC_INDEPENDENT : NC_COLLECTIVE));
}

static void first_run(void) {
  int file;
  int field;
  int dims[2];
  const size_t chunks[] = {48, 60};
  N(nc_create_par(client.file, NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &file));
  N(nc_def_dim(file, "row", mode_is("records") ? NC_UNLIMITED : ROWS, &dims[0]));
  N(nc_def_dim(file, "column", COLUMNS, &dims[1]));
  N(nc_def_var(file, "field", NC_INT, 2, dims, &field));
  const bool contiguous = mode_is("contiguous") || mode_is("independent");
  N(nc_def_var_chunking(file, field, contiguous ? NC_CONTIGUOUS : NC_CHUNKED, contiguous ? NULL : chunks));
  if (mode_is("deflate")) N(nc_def_var_deflate(file, field, 1, 1, 1));
  N(nc_put_att_text(file, NC_GLOBAL, "title", 4, "lzy?"));
  N(nc_enddef(file));
  set_access(file, field);
  rows(file, field, FIELD, 0, ROWS / 2);
  N(nc_sync(file));
  pause_here();
  rows(file, field, FIELD, ROWS / 2, ROWS);
  N(nc_close(file));
}

static void open_file(int mode, int* file, int* field) {
  N(nc_open_par(client.file, mode, MPI_COMM_WORLD, MPI_INFO_NULL, file));
  N(nc_inq_varid(*file, "field", field));
  set_access(*file, *field);
}

static void second_run(void) {
  int file;
  int field;
  open_file(NC_WRITE, &file, &field);
  rows(file, field, UPDATE, 0, UPDATED_ROWS);
  if (mode_is("records")) rows(file, field, FIELD, ROWS, ROWS + RECORDS_AGAIN);
  N(nc_sync(file));
  pause_here();
  N(nc_close(file));
}

static void check(void) {
  int file;
  int field;
  open_file(NC_NOWRITE, &file, &field);
  if (client.again) rows(file, field, UPDATE, 0, UPDATED_ROWS);
  rows(file, field, FIELD, client.again ? UPDATED_ROWS : 0, ROWS);
  if (client.again && mode_is("records")) rows(file, field, FIELD, ROWS, ROWS + RECORDS_AGAIN);
  N(nc_close(file));
}

int main(int argc, char** argv) {
  return run_client(argc, argv, kModes, first_run, second_run, check);
}
