#ifndef LZY_LZY_H
#define LZY_LZY_H
/*
 * lzy: redundancy and verification for files written by parallel programs.
 *
 * C11 and C++. The other public header is lzy/exchange.h (proven messages). Link with -llzy and the MPI library
 * that liblzy.so was built with.
 * docs/example.c is a whole program. The words used here (dataset, member, device, block, group, ...) are explained in
 * docs/design/overview.md, the options and exit codes in docs/reference/.
 *
 * MPI. The operations (lzy_protect, lzy_verify, lzy_repair, lzy_restore, lzy_info, lzy_copy, lzy_diff) are collective over their
 * communicator: all its processes call the same operation with the same paths and options, in the same
 * order as other collective operations on that communicator, and all get the same code and the same report. They
 * communicate on a duplicate of the communicator, so messages of the program are not disturbed. With MPI_COMM_NULL the
 * calling process works alone, and MPI need not be initialised. Everything else here is local.
 *
 * Files must be complete: all processes must have closed (or synchronised) them before the operation begins. Views, hints
 * and other settings of MPI-IO have no effect: lzy reads and writes files through the operating system.
 *
 * Threads. An operation uses up to `threads` threads while it runs and leaves none behind; only the calling thread
 * calls MPI (MPI_THREAD_FUNNELED is enough if this is the main thread). Several operations may run at the same time in
 * one process, on different datasets, if each has its own communicator and MPI was initialised with
 * MPI_THREAD_MULTIPLE, or if they get MPI_COMM_NULL. A report may be read by several threads at once; it belongs
 * to the caller, and its strings live until lzy_report_free.
 *
 * Nothing here prints, exits, changes signal handlers or throws. Offsets, lengths and sizes are in bytes, text is
 * UTF-8 (file names may have other bytes), terminated by a zero, and never NULL unless documented.
 */

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LZY_API __attribute__((visibility("default")))
#else
#define LZY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- codes ------------------------------------------------------------------------------------------------------ */

/** The result of an operation, equal to the exit codes of the tools. For several datasets or errors it is the gravest:
 *  LZY_UNREPAIRABLE before LZY_DAMAGED before LZY_STALE before LZY_UNPROTECTED. LZY_USAGE and the codes from
 *  LZY_REPAIR_FAILED to LZY_NO_MEMORY mean that the operation itself failed; they come before all others. */
typedef enum lzy_code {
  LZY_OK = 0,            /**< all is intact, perhaps after a repair */
  LZY_DAMAGED = 1,       /**< damage found, all of it repairable */
  LZY_UNREPAIRABLE = 2,  /**< damage beyond repair */
  LZY_USAGE = 3,         /**< a bad option, path or argument: the caller's mistake */
  LZY_UNPROTECTED = 4,   /**< no usable sidecar: not protected, or metadata destroyed */
  LZY_REPAIR_FAILED = 5, /**< the result of a repair, restore or copy could not be written, or was not right afterwards */
  LZY_IO = 6,            /**< the operating system refused or failed: I/O error, no permission, no space, busy */
  LZY_INTERNAL = 7,      /**< MPI failed, or a bug in lzy */
  LZY_NO_MEMORY = 8,     /**< out of memory */
  LZY_STALE = 9          /**< the file changed since its last commit, so its hashes cannot judge it */
} lzy_code;

/** A short English phrase for a code, e.g. "damage found, all of it repairable"; "unknown code" for other numbers.
 *  Static storage; thread-safe. */
LZY_API const char* lzy_strerror(int code);

/** The version of the library, e.g. "1.0.0". Static storage. */
LZY_API const char* lzy_version(void);

/* ---- options ---------------------------------------------------------------------------------------------------- */

/** Options of an operation. Initialise them by lzy_options_init, then set fields as needed:
 *
 *      lzy_options options;
 *      lzy_options_init(&options, sizeof options);
 *      options.parity = 2;
 *
 *  Later versions add fields at the end; `size` tells the library which fields the program knows, so programs need not
 *  be compiled again. Only lzy_protect uses the geometry (parity, group, block_size, stripe). For a dataset that is
 *  protected already, a geometry field with its default keeps the value of the dataset. If a field has another value
 *  than the dataset, lzy_protect encodes the dataset again. */
#define LZY_STRIPE_SERVERS UINT64_MAX /* for lzy_options.stripe */
typedef struct lzy_options {
  size_t size; /**< set by lzy_options_init; leave it alone */

  int32_t parity;      /**< m: devices of a group that may be lost, 0..254, less than group; -1: the default, 1.
                        *   0: hashes only; damage is found and cannot be repaired */
  uint32_t group;      /**< n: most devices in a group, 2..255 (1 with parity 0); 0: the default, 8 */
  uint32_t block_size; /**< bytes: unit of hashing, re-reading and repair, a power of two from 512 to 16 MiB;
                        *   0: the default, 64 KiB, and 4 KiB in files of up to 64 KiB */
  uint64_t stripe;     /**< bytes on one device before the next: a power-of-two multiple of block_size, at most 1 GiB;
                        *   smaller for small files; 0: the default, 1 MiB; LZY_STRIPE_SERVERS: use the
                        *   stripes that the file system reports, so that one server is one device */
  uint64_t memory;     /**< most bytes of memory one process uses for the work, at least 64 KiB; 0: default, 256 MiB */
  uint32_t threads;    /**< most threads of one process, at most 65535; 0: the cores it may use, shared among the
                        *   processes of its node */
  uint32_t timeout;    /**< seconds to wait for a dataset that another process is changing; 0: the default, 60 */

  /* Switches: 0 is off, everything else on; all are off at first. */
  int32_t use_environment; /**< the variables LZY_PARITY, LZY_GROUP, LZY_BLOCK_SIZE, LZY_STRIPE, LZY_MEMORY, LZY_THREADS
                            *   and LZY_TIMEOUT replace defaults of fields; LZY_TOPOLOGY and LZY_EXCHANGE are used.
                            *   Other LZY_ variables are checked, but have no effect; an unknown or unusable one is
                            *   LZY_USAGE. Off: the environment is not used */
  int32_t from_disk;       /**< lzy_verify, lzy_repair: read everything from the device, past the page cache */
  int32_t force;           /**< lzy_protect: commit even blocks that are damaged, and files whose sidecar is
                            *   destroyed. lzy_repair, lzy_restore: also restore the
                            *   committed content of blocks that are stale or at risk */
  int32_t dry_run;         /**< lzy_restore: report what is lost and whether it can be rebuilt; change nothing */
  int32_t salvage; /**< lzy_restore: if more is lost than parity can rebuild, write the parts that can be rebuilt */

  const uint32_t* devices; /**< lzy_restore: numbers of devices to be treated as lost, in addition to missing ones */
  size_t device_count;     /**< entries of `devices` */

  /** NULL, or a function that is called now and then with the bytes done and the bytes to do in the present phase
   *  ("checking data", ...). One thread of each process calls it, not always the same one. It must not call lzy or
   *  MPI. The operation waits for it. */
  void (*progress)(void* data, const char* phase, uint64_t done, uint64_t total);
  void* progress_data; /**< the first argument of `progress` */

  /** lzy_restore: NULL, or another copy of the data: a file, the pattern of a set, or a directory with the same
   *  names. Blocks that parity cannot rebuild are read from it if they have the committed hash. The copy is never written.
   *  Processes that do not see the copy get the blocks from others. */
  const char* replica;
  /** Not 0: damaged objects are not named. 0: a separate process, lzy-objects-helper, parses damaged HDF5 and netCDF files
   *  for at most 30 seconds; the operation waits for it. */
  int32_t no_objects;
  int32_t lost_here; /**< lzy_restore: not 0: treat members of a set that no process sees as lost, even if other nodes may have them */
  /** lzy_restore: NULL, or names of nodes, separated by commas, that will not return: members that were written on
   *  these nodes are treated as lost. */
  const char* lost_nodes;
  /** NULL, or how parity is added up among the processes: "auto" (the default), "mpi", "pairwise", "ring" or "shared". That of
   *  process 0 counts. The options commit and posix belong to programs under the layer, so they have no fields. */
  const char* exchange;
} lzy_options;

/** Sets the defaults. `size` is the sizeof(lzy_options) of the caller; no byte beyond it is written. LZY_USAGE
 *  if `options` is NULL or `size` is smaller than that of any version of this structure. */
LZY_API int lzy_options_init(lzy_options* options, size_t size);

/* ---- operations ------------------------------------------------------------------------------------------------- */

/** The findings and results of an operation. Opaque; see the lzy_report functions. */
typedef struct lzy_report lzy_report;

/* All operations take:
 *
 * comm     an intracommunicator, or MPI_COMM_NULL: this process alone.
 * path     as on the command line of the tools: a file; a pattern of a file set ("state.%r", "/local/%04r/state": %r is
 *          the rank that wrote the member; '*' matches within one component, and each match is
 *          one dataset); or a directory: every protected dataset below it (lzy_protect: every regular file below it
 *          that is not hidden, each a dataset of its own unless it is a member of a protected set). A member of a
 *          protected set means the whole set. A lost file with a sidecar is a dataset. Any
 *          number of processes can work on a set; with disks that only one node sees, at least one process must run on
 *          each node.
 * options  NULL: the defaults.
 * report   receives the report; may be NULL. Always set, to NULL if there is no memory for a report.
 *          Free it by lzy_report_free, whatever the code.
 *
 * They return a lzy_code, which is also lzy_report_code(*report); all processes get the same one. LZY_USAGE if path
 * or options are unusable or differ among the processes, if nothing matches the path, or if a communicator is given
 * and MPI is not initialised or already finalized. An operation continues after a dataset that fails.
 */

/** Makes or refreshes sidecars (".LZY.<name>" beside each file): hashes, parity, metadata. Changes nothing else. LZY_OK
 *  if everything is protected now, LZY_DAMAGED or LZY_UNREPAIRABLE if datasets have damaged
 *  blocks or lost members, LZY_UNPROTECTED if the sidecar of a file is destroyed. Without options->force, these
 *  datasets are left unchanged. */
LZY_API int lzy_protect(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Checks data, parity and metadata against their hashes. Changes nothing. LZY_OK if all is intact. */
LZY_API int lzy_verify(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Like lzy_verify, but also repairs damaged blocks of files and sidecars, in place. Never creates missing files.
 *  LZY_OK if all is intact now. If a part of a dataset is beyond repair, nothing of this dataset is written. */
LZY_API int lzy_repair(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Rebuilds lost files and sidecars, and repairs damaged blocks. A restored file gets its name by a rename when it is
 *  whole and checked, with its committed mode and times. LZY_OK if all is intact now. If a part of a dataset is beyond
 *  repair, nothing of this dataset is written unless options->salvage is set. */
LZY_API int lzy_restore(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Reads only the metadata: geometry, root, sizes, and the state that follows from file times and recorded intents.
 *  Fast, but proves nothing about the data. Changes nothing. */
LZY_API int lzy_info(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/* ---- commits in the background ---------------------------------------------------------------------------------- */

/** Under lzy-run --background (LZY_COMMIT=background), MPI_File_close and MPI_File_sync return before the file is protected.
 *  lzy_commit_wait waits until the commits of the file `path` that this process takes part in have ended; for a set: give
 *  the member of this process. NULL: all commits of this process. `seconds`: how long to wait at most; negative: without
 *  a limit. Call it, for example, before the checkpoint before is renamed or deleted without MPI. Local; it may be
 *  called by any thread.
 *
 *  LZY_OK: none of them failed, or there was none, or the program does not run under the layer. LZY_STALE: a commit is
 *  still under way. LZY_IO: a commit failed since the last call, so a file is at risk; stderr has the reason. */
LZY_API int lzy_commit_wait(const char* path, double seconds);

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/** How lzy_copy reads back what it has written. */
typedef enum lzy_verify_copy {
  LZY_VERIFY_DEVICE = 0, /**< from the storage device, past the page cache */
  LZY_VERIFY_CACHE = 1,  /**< from the page cache */
  LZY_VERIFY_NONE = 2    /**< not at all */
} lzy_verify_copy;

/** Progress of a copy. `done`: bytes that this process has copied. `total`: bytes that all processes copy together (0: not
 *  known). One thread at a time calls it, but not the thread that called lzy_copy. It must not call MPI or lzy. A result
 *  other than 0 ends the copy: no file is left half-written, and `resume` continues it. */
typedef int (*lzy_copy_progress)(void* data, uint64_t done, uint64_t total);

/** Options of lzy_copy. Initialise them by lzy_copy_options_init; later versions add fields at the end. */
typedef struct lzy_copy_options {
  size_t size;                /**< set by lzy_copy_options_init; leave it alone */
  lzy_verify_copy verify;     /**< default: LZY_VERIFY_DEVICE */
  int32_t no_protect;         /**< not 0: the copies get no sidecars */
  int32_t resume;             /**< not 0: skip files that exist already, and continue within large ones */
  int32_t salvage;            /**< not 0: copy damaged blocks that cannot be rebuilt as they are */
  uint64_t limit;             /**< most bytes per second of all processes together; 0: no limit */
  lzy_copy_progress progress; /**< NULL: none */
  void* progress_data;        /**< passed to `progress` */
} lzy_copy_options;

/** Sets the defaults. LZY_USAGE if `options` is NULL or `size` is smaller than that of any version. */
LZY_API int lzy_copy_options_init(lzy_copy_options* options, size_t size);

/** The result of lzy_copy. Fields whose names contain `bytes` count bytes of data, all others count files. Initialise it by
 *  lzy_copied_init; later versions add fields at the end. */
typedef struct lzy_copied {
  size_t size;               /**< set by lzy_copied_init; leave it alone */
  uint64_t files;            /**< copied and proven */
  uint64_t already;          /**< existed already (`resume`) */
  uint64_t failed;           /**< not copied; existing files of these names are unchanged */
  uint64_t bytes;            /**< of `files` */
  uint64_t healed_bytes;     /**< damaged in the source, and rebuilt in the copy */
  uint64_t sent_again_bytes; /**< read back wrong, and written again */
  uint64_t lost_bytes;       /**< damaged in the copy, too (`salvage`) */
} lzy_copied;

/** Sets all numbers to 0. LZY_USAGE if `copied` is NULL or `size` is smaller than that of any version. */
LZY_API int lzy_copied_init(lzy_copied* copied, size_t size);

/** Copies a file, a directory, or a set (`source` and `destination` are patterns then) as lzy-copy does, and proves the
 *  copies. Only whole, proven files get their name. Each block that has a committed hash is compared with it, and rebuilt
 *  from parity in the copy if it differs; the source is never written. With a communicator, the processes share the files;
 *  all of them must see source and destination. LZY_USAGE if the source is sealed.
 *
 *  source       a file, a directory, or the pattern of one set.
 *  destination  path of the copy. If it ends with a slash, or is a directory and the source a file, the copy goes into it.
 *  options      geometry of the copies' sidecars, memory, threads, timeout; NULL: the defaults.
 *  copy         NULL: the defaults.
 *  copied       may be NULL. Always set, the same on all processes. If it is not initialised, nothing is copied
 *               (LZY_USAGE).
 *  report       as for other operations; it has no datasets, but a code, and the message of the first failure.
 *
 *  Returns LZY_OK if all files were copied and proven; LZY_UNREPAIRABLE if files are damaged beyond repair, even if they were
 *  salvaged; LZY_REPAIR_FAILED if copies could not be written or proven; LZY_STALE if files changed meanwhile; LZY_IO if
 *  files could not be read, or `progress` ended the copy. After a failure of one file, the others are still copied. */
LZY_API int lzy_copy(MPI_Comm comm, const char* source, const char* destination, const lzy_options* options,
                     const lzy_copy_options* copy, lzy_copied* copied, lzy_report** report);

/* ---- comparisons ------------------------------------------------------------------------------------------------ */

/** The result of comparing two files. */
typedef enum lzy_verdict {
  LZY_VERDICT_SAME = 0,
  LZY_VERDICT_DIFFERENT = 1,
  LZY_VERDICT_ONLY_A = 2, /**< B has no such file */
  LZY_VERDICT_ONLY_B = 3, /**< A has no such file */
  LZY_VERDICT_UNKNOWN = 4 /**< lzy_difference.message has the reason */
} lzy_verdict;

/** A range of bytes in a file. */
typedef struct lzy_range {
  uint64_t offset;
  uint64_t length;
} lzy_range;

/** Two files that differ, or whose comparison failed. Texts and ranges live as long as the report. */
typedef struct lzy_difference {
  const char* name;        /**< path below the directories; rank of a set's member; "" if two files were compared */
  const char* a;           /**< the path in A */
  const char* b;           /**< the path in B */
  lzy_verdict verdict;     /**< never LZY_VERDICT_SAME */
  lzy_code code;           /**< the result of lzy_diff for these files alone */
  uint64_t bytes_a;
  uint64_t bytes_b;
  uint64_t block_size;     /**< the ranges consist of whole blocks of this size; 0 if data were compared */
  int32_t ranges_known;    /**< 0: they differ, but the ranges are not known */
  const lzy_range* ranges; /**< sorted; none touches the next */
  size_t range_count;
  const char* message;     /**< why the comparison failed, or the ranges are not known; "" otherwise */
} lzy_difference;

/** Compares two copies, and lists the ranges that differ, as lzy-diff does. Changes nothing.
 *
 *  a, b     two files, two directories, or the patterns of two sets. A file and a directory: compares the file of the same
 *           name in the directory.
 *  deep     0: compare the hashes in the sidecars, if the files are as committed. Not 0: compare the data.
 *  options  memory, threads; NULL: the defaults.
 *  report   as for other operations; it has no datasets, but differences (lzy_report_difference).
 *
 *  Returns LZY_OK if all files are equal, LZY_DAMAGED if any differ. If a comparison was not possible, returns
 *  LZY_STALE if a file changed since its last commit, LZY_UNPROTECTED if it has no usable sidecar, LZY_USAGE if block
 *  sizes differ or files are sealed. */
LZY_API int lzy_diff(MPI_Comm comm, const char* a, const char* b, int deep, const lzy_options* options, lzy_report** report);

/* ---- reports ---------------------------------------------------------------------------------------------------- */

typedef enum lzy_kind {
  LZY_KIND_SHARED = 1, /**< one file */
  LZY_KIND_SET = 2     /**< a file set: one file per process, coded together */
} lzy_kind;

typedef enum lzy_state {
  LZY_STATE_INTACT = 0,
  LZY_STATE_DAMAGED = 1,      /**< repairable */
  LZY_STATE_UNREPAIRABLE = 2, /**< more is lost than parity can rebuild */
  LZY_STATE_STALE = 3,        /**< edited since the last commit */
  LZY_STATE_AT_RISK = 4,      /**< a writer has it open, or died, before it committed */
  LZY_STATE_UNPROTECTED = 5,  /**< no usable sidecar */
  LZY_STATE_RESTORED = 6      /**< was damaged; is intact now */
} lzy_state;

typedef enum lzy_part { LZY_PART_DATA = 0, LZY_PART_PARITY = 1, LZY_PART_METADATA = 2 } lzy_part;

typedef enum lzy_cause {
  LZY_CAUSE_HASH = 0,       /**< the bytes do not have their committed hash */
  LZY_CAUSE_UNREADABLE = 1, /**< the device returned an error */
  LZY_CAUSE_MISSING = 2,    /**< the file does not exist, or ends before the range */
  LZY_CAUSE_STALE = 3,      /**< differs, and the modification time of the file changed: an edit, not damage */
  LZY_CAUSE_AT_RISK = 4,    /**< differs, and an epoch that did not end may have written it */
  LZY_CAUSE_NOT_VISIBLE = 5, /**< a member of a set that no process sees: it may be on the disk of another node */
  LZY_CAUSE_ENCODING = 6    /**< parity that does not fit the data of its rows, even if its hash is right */
} lzy_cause;

/** The words of the tools and of their JSON: "intact", "at-risk", "data", "hash", ...; "unknown" for other numbers.
 *  Static storage. */
LZY_API const char* lzy_state_name(int state);
LZY_API const char* lzy_part_name(int part);
LZY_API const char* lzy_cause_name(int cause);

/** One dataset of a report. Belongs to the report; later versions add fields at the end. */
typedef struct lzy_dataset {
  const char* path; /**< the file, or the pattern of a set */
  lzy_kind kind;
  lzy_state state;     /**< after the operation */
  lzy_code code;       /**< the result for this dataset alone */
  const char* message; /**< why the operation failed on it, for users; "" if it did not */
  const char* root; /**< hash of the data and their geometry: 32 lower-case hexadecimal digits; "" if it
                     *   is not known. Equal for equal data, geometry and options */
  uint32_t devices; /**< number of devices: members of a set, stripe positions of a shared file */
  uint32_t parity;  /**< m */
  uint32_t groups;
  uint32_t group_size; /**< devices of the largest group */
  uint32_t block_size; /**< bytes */
  uint64_t unit;       /**< bytes on one device before the next */
  uint64_t bytes;      /**< of data */
  uint64_t sidecar_bytes;
  uint64_t generation;    /**< number of commits; 0 before the first */
  int64_t commit_time_ns; /**< of the last commit: nanoseconds since 1970-01-01 UTC; 0 if there was none */
  int32_t committed;      /**< lzy_protect: 1 if a commit was made, 0 if the protection was up to date */
  uint64_t bytes_read;    /**< by all processes, for this operation */
  uint64_t bytes_encoded; /**< lzy_protect: data bytes for which parity was made */
  size_t damage_count;    /**< entries for lzy_report_damage */
  size_t warning_count;   /**< entries for lzy_report_warning */
  /* Times of the phases, in seconds. read to write are sums over the threads of a process, divided by their number; sync
   * and total are elapsed times. Of several processes, the slowest counts. 0 if an operation does not measure it. */
  double seconds_read;
  double seconds_hash;
  double seconds_encode;
  double seconds_exchange;
  double seconds_write;
  double seconds_sync;
  double seconds_total;
  size_t not_visible_count; /**< entries for lzy_report_not_visible */
} lzy_dataset;

/** A member of a set that no process of the operation sees. It may be on the disk of another node. Belongs to the
 *  report; later versions add fields at the end. */
typedef struct lzy_not_visible {
  uint32_t device;  /**< its rank */
  const char* path;
  const char* node; /**< the node on which it was written; "" if not known */
} lzy_not_visible;

/** One range of damaged bytes, perhaps repaired since. Neighbouring blocks with equal fields are one entry.
 *  Belongs to the report; later versions add fields at the end. */
typedef struct lzy_damage {
  const char* path; /**< the file with the range: a data file; for parity and metadata, a sidecar */
  uint32_t device;  /**< number of the device: the rank of a set's member, the stripe position in a shared file */
  lzy_part part;
  uint64_t offset;
  uint64_t length;
  lzy_cause cause;
  int32_t transient;          /**< 1: a second reading, from the device, was right */
  int32_t repaired;           /**< 1: repaired by this operation */
  int32_t beyond_repair;      /**< 1: parity cannot rebuild it */
  /* Objects in the range, if the file is HDF5 or netCDF. lzy_info names none. If names are missing, a warning has the reason. */
  const char* const* objects; /**< paths of datasets, groups or variables; "" for unused space; object_count entries. An
                               *   object with several damaged chunks has several entries */
  size_t object_count;
  const char* const* object_texts; /**< for each, the damaged part, as lzy-verify prints it:
                                    *   "/fields/T (raw data, chunk [3, 0], elements [768, 0] to [799, 255])" */
  uint64_t objects_left_off;       /**< number of objects that are not listed */
} lzy_damage;

/** The code that the operation returned; LZY_NO_MEMORY for NULL. */
LZY_API int lzy_report_code(const lzy_report* report);

/** The first failure of the operation as a whole (a bad option or path, a directory that cannot be read), for
 *  users: names the object, its value and the accepted values. "" if there was none. Datasets have messages of their
 *  own. */
LZY_API const char* lzy_report_message(const lzy_report* report);

/** The number of datasets, sorted by path; 0 for NULL. */
LZY_API size_t lzy_report_count(const lzy_report* report);

/** Dataset number `index`, from 0; NULL if there is none. */
LZY_API const lzy_dataset* lzy_report_dataset(const lzy_report* report, size_t index);

/** Entry number `entry`, from 0, of the damage of dataset number `index`; NULL if there is none. */
LZY_API const lzy_damage* lzy_report_damage(const lzy_report* report, size_t index, size_t entry);

/** Warning number `entry`, from 0, of dataset number `index`: a complete sentence for users; NULL if there is none. */
LZY_API const char* lzy_report_warning(const lzy_report* report, size_t index, size_t entry);

/** Entry number `entry`, from 0, of the members of dataset number `index` that are not visible; NULL if there is none. */
LZY_API const lzy_not_visible* lzy_report_not_visible(const lzy_report* report, size_t index, size_t entry);

/** For lzy_diff: the number of pairs that differ or could not be compared; pair number `index`, sorted by name, or NULL;
 *  and the number of equal files. */
LZY_API size_t lzy_report_difference_count(const lzy_report* report);
LZY_API const lzy_difference* lzy_report_difference(const lzy_report* report, size_t index);
LZY_API uint64_t lzy_report_same(const lzy_report* report);

/** Frees a report with all its datasets and texts. NULL is accepted. */
LZY_API void lzy_report_free(lzy_report* report);

#ifdef __cplusplus
}
#endif

#endif /* LZY_LZY_H */
