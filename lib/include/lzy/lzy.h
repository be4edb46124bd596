#ifndef LZY_LZY_H
#define LZY_LZY_H
/*
 * lzy: redundancy and verification for files written by parallel programs.
 *
 * C11 and C++; lzy/exchange.h (messages that are proven) is the other public header. Link with -llzy and the MPI library
 * that liblzy.so was built with.
 * docs/example.c is a whole program. The words used here (dataset, member, device, block, group, ...) are explained in
 * docs/design/overview.md, the options and exit codes in docs/reference/.
 *
 * MPI. The operations (lzy_protect, lzy_verify, lzy_repair, lzy_restore, lzy_info, lzy_copy, lzy_diff) are collective over the
 * communicator they are given: all its processes call the same operation with the same paths and options, in the same
 * order as other collective operations on that communicator, and all get the same code and the same report. They
 * communicate on a duplicate of the communicator, so messages of the program are not disturbed. With MPI_COMM_NULL the
 * calling process works alone, and MPI need not be initialised. Everything else here is local.
 *
 * Files must be complete: closed (or synchronised) by all processes before the operation begins. What MPI-IO was told
 * about them does not matter; lzy reads and writes them through the operating system.
 *
 * Threads. An operation uses up to `threads` threads while it runs and leaves none behind; only the calling thread
 * calls MPI (MPI_THREAD_FUNNELED suffices when that is the main thread). Several operations may run at the same time in
 * one process, on different datasets, if each has its own communicator and MPI was initialised with
 * MPI_THREAD_MULTIPLE, or if they are given MPI_COMM_NULL. A report may be read by several threads at once; it belongs
 * to the caller, and its strings live until lzy_report_free.
 *
 * Nothing here prints, exits, changes signal handlers or throws. Offsets, lengths and sizes are in bytes, text is
 * UTF-8 or whatever bytes a file name has, always terminated by a zero, never NULL unless that is said.
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

/** What an operation comes to: the exit codes of the tools. Of several datasets, or of several troubles, the gravest:
 *  LZY_UNREPAIRABLE before LZY_DAMAGED before LZY_STALE before LZY_UNPROTECTED; LZY_USAGE and the codes from
 *  LZY_REPAIR_FAILED to LZY_NO_MEMORY, which say that the work itself could not be done, before all of these. */
typedef enum lzy_code {
  LZY_OK = 0,            /**< intact, or made so */
  LZY_DAMAGED = 1,       /**< damage found, all of it repairable */
  LZY_UNREPAIRABLE = 2,  /**< damage beyond repair */
  LZY_USAGE = 3,         /**< a bad option, path or argument: the caller's mistake */
  LZY_UNPROTECTED = 4,   /**< no usable sidecar: not protected, or metadata destroyed */
  LZY_REPAIR_FAILED = 5, /**< repair, restore or copy was tried, and writing or checking the result failed */
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

/** Options of an operation. Always initialised by lzy_options_init; then fields are set as needed:
 *
 *      lzy_options options;
 *      lzy_options_init(&options, sizeof options);
 *      options.parity = 2;
 *
 *  Later versions add fields at the end; `size` tells the library which ones the program knows, so programs need not
 *  be compiled again. The geometry (parity, group, block_size, stripe) counts only where something is encoded: by
 *  lzy_protect. Of a dataset that is protected already, each geometry field left at its default keeps the value that
 *  the dataset has; one that is set and differs makes lzy_protect encode it anew. */
#define LZY_STRIPE_SERVERS UINT64_MAX /* for lzy_options.stripe */
typedef struct lzy_options {
  size_t size; /**< set by lzy_options_init; leave it alone */

  int32_t parity;      /**< m: devices of a group that may be lost, 0..254, less than group; -1: the default, 1.
                        *   0: hashes only; damage is found and cannot be repaired */
  uint32_t group;      /**< n: most devices in a group, 2..255 (1 with parity 0); 0: the default, 8 */
  uint32_t block_size; /**< bytes: unit of hashing, re-reading and repair, a power of two from 512 to 16 MiB;
                        *   0: the default, 64 KiB, and 4 KiB in files of up to 64 KiB */
  uint64_t stripe;     /**< bytes on one device before the next: a power-of-two multiple of block_size, at most 1 GiB;
                        *   smaller for small files; 0: the default, 1 MiB; LZY_STRIPE_SERVERS: as the file system
                        *   tells its stripes, so that one server is one device */
  uint64_t memory;     /**< most bytes of memory one process uses for the work, at least 64 KiB; 0: default, 256 MiB */
  uint32_t threads;    /**< most threads of one process, at most 65535; 0: the cores it may use, shared among the
                        *   processes of its node */
  uint32_t timeout;    /**< seconds to wait for a dataset that another process is changing; 0: the default, 60 */

  /* Switches: 0 is off, everything else on; all are off at first. */
  int32_t use_environment; /**< the variables LZY_PARITY, LZY_GROUP, LZY_BLOCK_SIZE, LZY_STRIPE, LZY_MEMORY, LZY_THREADS
                            *   and LZY_TIMEOUT stand in for fields left at their default, and LZY_TOPOLOGY counts.
                            *   Other LZY_ variables are checked, and have no effect; an unknown or unusable one is
                            *   LZY_USAGE. Off: the environment is not looked at */
  int32_t from_disk;       /**< lzy_verify, lzy_repair: read everything from the device, past the page cache */
  int32_t force;           /**< lzy_protect: commit even blocks that are damaged, and files whose sidecar is
                            *   destroyed. lzy_repair, lzy_restore: take blocks
                            *   that are stale or at risk back to the committed content too */
  int32_t dry_run;         /**< lzy_restore: report what is lost and whether it can be had back; change nothing */
  int32_t salvage; /**< lzy_restore: with more losses than parity can mend, write what can be had nevertheless */

  const uint32_t* devices; /**< lzy_restore: numbers of devices to be treated as lost, besides those found missing */
  size_t device_count;     /**< entries of `devices` */

  /** NULL, or a function that is called now and then with the bytes that are done and to do in the present phase
   *  ("checking data", ...). One thread of each process calls it, not always the same one. It must not call lzy or
   *  MPI, and it takes time from the work. */
  void (*progress)(void* data, const char* phase, uint64_t done, uint64_t total);
  void* progress_data; /**< the first argument of `progress` */

  /** lzy_restore: NULL, or another copy of what is restored: a file, the pattern of a set, or a directory with the same
   *  names. Blocks that parity cannot rebuild are taken from there if they have the committed hash. It is only read. Processes that do not see it get them from others. */
  const char* replica;
  /** Not 0: objects of damage are not named. Otherwise, a damaged file that is HDF5 or netCDF is parsed by a process of its
   *  own, lzy-objects-helper, for at most 30 seconds; the operation waits for it. */
  int32_t no_objects;
  int32_t lost_here; /**< lzy_restore: not 0: members of a set that no process sees are lost, whatever node they were written on */
  /** lzy_restore: NULL, or names of nodes, with commas between them, that are gone for good: members that were written there are lost,
   *  although they may be on their disks. */
  const char* lost_nodes;
} lzy_options;

/** Fills in the defaults. `size` is sizeof(lzy_options) as the caller knows it; no byte beyond it is written. LZY_USAGE
 *  when `options` is NULL or `size` is smaller than that of any version of this structure. */
LZY_API int lzy_options_init(lzy_options* options, size_t size);

/* ---- operations ------------------------------------------------------------------------------------------------- */

/** What an operation found and did. Opaque; see the lzy_report functions. */
typedef struct lzy_report lzy_report;

/* All operations take:
 *
 * comm     an intracommunicator, or MPI_COMM_NULL: this process alone.
 * path     as on the command line of the tools: a file; a pattern of a file set ("state.%r", "/local/%04r/state": %r is
 *          the rank that wrote the member, whoever reads it now; '*' matches within one component, each match being
 *          one dataset); or a directory: every protected dataset below it (lzy_protect: every regular file below it
 *          that is not hidden, each a dataset of its own unless it is a member of a protected set). A member of a
 *          protected set stands for the whole set. A file that is lost but whose sidecar is there is a dataset. Any
 *          number of processes can work on a set; with disks that only one node sees, at least one process must run on
 *          each node.
 * options  NULL: the defaults.
 * report   where the report goes; NULL if it is not wanted. Set in any case, to NULL when there is no memory for one.
 *          To be freed by lzy_report_free, whatever the code.
 *
 * They return a lzy_code, which is also lzy_report_code(*report); all processes get the same one. LZY_USAGE when path
 * or options are unusable or differ among the processes, when nothing matches the path, or when a communicator is given
 * and MPI is not initialised or finalized already. The operations never stop at the first dataset that is in trouble.
 */

/** Makes or refreshes sidecars (".LZY.<name>" beside each file): hashes, parity, metadata. Changes nothing else. LZY_OK
 *  when everything found is protected now, LZY_DAMAGED or LZY_UNREPAIRABLE for datasets in which there are damaged
 * blocks or lost members, LZY_UNPROTECTED for files whose sidecar is destroyed. These are left as they are unless
 * options->force is set. */
LZY_API int lzy_protect(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Checks data, parity and metadata against their hashes. Changes nothing. LZY_OK when all is intact. */
LZY_API int lzy_verify(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Like lzy_verify, and mends what is damaged: blocks of files and sidecars, in place; never creates missing files.
 *  LZY_OK when all is intact now. When something is beyond repair, nothing of that dataset is written. */
LZY_API int lzy_repair(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Rebuilds lost files and sidecars, and mends damaged blocks. A restored file appears by rename, whole and checked,
 * with the mode and times it had. LZY_OK when all is intact now; when something is beyond repair, nothing of that
 * dataset is written unless options->salvage is set. */
LZY_API int lzy_restore(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/** Reads the metadata only: geometry, root, sizes, and the state as far as times and notes of unfinished work tell it.
 *  Fast; proves nothing about the data. Changes nothing. */
LZY_API int lzy_info(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report);

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/** How lzy_copy reads back what it has written. */
typedef enum lzy_verify_copy {
  LZY_VERIFY_DEVICE = 0, /**< from the storage device, past the page cache */
  LZY_VERIFY_CACHE = 1,  /**< from the page cache */
  LZY_VERIFY_NONE = 2    /**< not at all */
} lzy_verify_copy;

/** Told how far a copy is: bytes that this process has copied, and bytes that all processes copy together (0: not known).
 *  Called by one thread at a time, but by threads other than the caller of lzy_copy; it must not call MPI or lzy. A result
 *  other than 0 ends the copy; then nothing is half-written, and `resume` goes on with it. */
typedef int (*lzy_copy_progress)(void* data, uint64_t done, uint64_t total);

/** Options of lzy_copy. Always initialised by lzy_copy_options_init; later versions add fields at the end. */
typedef struct lzy_copy_options {
  size_t size;                /**< set by lzy_copy_options_init; leave it alone */
  lzy_verify_copy verify;     /**< default: LZY_VERIFY_DEVICE */
  int32_t no_protect;         /**< not 0: the copies get no sidecars */
  int32_t resume;             /**< not 0: skip files that are there already, and go on within large ones */
  int32_t salvage;            /**< not 0: copy damaged blocks that cannot be rebuilt as they are */
  uint64_t limit;             /**< most bytes per second of all processes together; 0: no limit */
  lzy_copy_progress progress; /**< NULL: none */
  void* progress_data;        /**< passed to `progress` */
} lzy_copy_options;

/** Fills in the defaults. LZY_USAGE when `options` is NULL or `size` is smaller than that of any version. */
LZY_API int lzy_copy_options_init(lzy_copy_options* options, size_t size);

/** What lzy_copy did. Numbers are of files or, if they are called bytes, of bytes of data. Always initialised by
 *  lzy_copied_init; later versions add fields at the end. */
typedef struct lzy_copied {
  size_t size;               /**< set by lzy_copied_init; leave it alone */
  uint64_t files;            /**< copied and proven */
  uint64_t already;          /**< there already (`resume`) */
  uint64_t failed;           /**< not copied: what had their names is as it was */
  uint64_t bytes;            /**< of `files` */
  uint64_t healed_bytes;     /**< damaged in the source, and rebuilt in the copy */
  uint64_t sent_again_bytes; /**< read back wrong, and written again */
  uint64_t lost_bytes;       /**< damaged in the copy, too (`salvage`) */
} lzy_copied;

/** Sets all numbers to 0. LZY_USAGE when `copied` is NULL or `size` is smaller than that of any version. */
LZY_API int lzy_copied_init(lzy_copied* copied, size_t size);

/** Copies a file, a directory, or a set (`source` and `destination` are patterns then) as lzy-copy does, and proves what
 *  arrived. Only whole, proven files get their name. Each block that has a committed hash is compared with it, and rebuilt
 *  from parity in the copy if it differs; the source is never written. With a communicator, the processes share the files;
 *  all of them must see source and destination. A source with a seal is LZY_USAGE.
 *
 *  source       a file, a directory, or the pattern of one set.
 *  destination  where the copy goes: into it if it ends with a slash, or if it is a directory and the source a file.
 *  options      geometry of the copies' sidecars, memory, threads, timeout; NULL: the defaults.
 *  copy         NULL: the defaults.
 *  copied       NULL if it is not wanted. Set in any case, the same on all processes; if it is not initialised, that is
 *               LZY_USAGE, and nothing is copied.
 *  report       as for other operations; it has no datasets, but a code, and the message of the first failure.
 *
 *  Returns LZY_OK when all was copied and proven; LZY_UNREPAIRABLE when files are damaged beyond repair, also if they were
 *  salvaged; LZY_REPAIR_FAILED when copies could not be written or proven; LZY_STALE when files changed meanwhile; LZY_IO when
 *  files could not be read, or `progress` ended the copy. A failure of one file does not stop the others. */
LZY_API int lzy_copy(MPI_Comm comm, const char* source, const char* destination, const lzy_options* options,
                     const lzy_copy_options* copy, lzy_copied* copied, lzy_report** report);

/* ---- comparisons ------------------------------------------------------------------------------------------------ */

/** What is known of two files. */
typedef enum lzy_verdict {
  LZY_VERDICT_SAME = 0,
  LZY_VERDICT_DIFFERENT = 1,
  LZY_VERDICT_ONLY_A = 2, /**< B has no such file */
  LZY_VERDICT_ONLY_B = 3, /**< A has no such file */
  LZY_VERDICT_UNKNOWN = 4 /**< lzy_difference.message says why */
} lzy_verdict;

/** Bytes of a file. */
typedef struct lzy_range {
  uint64_t offset;
  uint64_t length;
} lzy_range;

/** Two files that differ, or of which it is not known. Texts and ranges live as long as the report. */
typedef struct lzy_difference {
  const char* name;        /**< below the directories; the rank of a set's member; "" if two files were compared */
  const char* a;           /**< the path in A */
  const char* b;           /**< the path in B */
  lzy_verdict verdict;     /**< never LZY_VERDICT_SAME */
  lzy_code code;           /**< what lzy_diff would return for these files alone */
  uint64_t bytes_a;
  uint64_t bytes_b;
  uint64_t block_size;     /**< the ranges consist of whole blocks of this size; 0 if data were compared */
  int32_t ranges_known;    /**< 0: they differ, but which ranges is not known */
  const lzy_range* ranges; /**< sorted; none touches the next */
  size_t range_count;
  const char* message;     /**< why nothing, or nothing more, is known; "" otherwise */
} lzy_difference;

/** Tells whether two copies hold the same bytes, and which ranges differ, as lzy-diff does. Changes nothing.
 *
 *  a, b     two files, two directories, or the patterns of two sets; a file and a directory: the file of that name in it.
 *  deep     0: compare the hashes in the sidecars, of files that are as they were committed. Not 0: compare the data.
 *  options  memory, threads; NULL: the defaults.
 *  report   as for other operations; it has no datasets, but differences (lzy_report_difference).
 *
 *  Returns LZY_OK when all is the same; LZY_DAMAGED when something differs; otherwise why something is not known:
 *  LZY_STALE when a file changed since its last commit, LZY_UNPROTECTED when it has no usable sidecar, LZY_USAGE when block
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
  LZY_STATE_UNREPAIRABLE = 2, /**< more is lost than parity can mend */
  LZY_STATE_STALE = 3,        /**< edited since the last commit */
  LZY_STATE_AT_RISK = 4,      /**< a writer has it open, or died, before it committed */
  LZY_STATE_UNPROTECTED = 5,  /**< no usable sidecar */
  LZY_STATE_RESTORED = 6      /**< was damaged; is intact now */
} lzy_state;

typedef enum lzy_part { LZY_PART_DATA = 0, LZY_PART_PARITY = 1, LZY_PART_METADATA = 2 } lzy_part;

typedef enum lzy_cause {
  LZY_CAUSE_HASH = 0,       /**< the bytes do not have the hash they had */
  LZY_CAUSE_UNREADABLE = 1, /**< the device returned an error */
  LZY_CAUSE_MISSING = 2,    /**< no such file, or it ends before */
  LZY_CAUSE_STALE = 3,      /**< differs, but so does the file's modification time: an edit rather than damage */
  LZY_CAUSE_AT_RISK = 4,    /**< differs, and was being written when the last epoch broke off */
  LZY_CAUSE_NOT_VISIBLE = 5, /**< a member of a set that no process sees: it may be on the disk of another node */
  LZY_CAUSE_ENCODING = 6    /**< parity that is not what the data of its rows give, whatever its hash says */
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
  lzy_code code;       /**< what this dataset alone comes to */
  const char* message; /**< why the operation failed on it, for people; "" when it did not */
  const char* root; /**< hash that stands for the data and their geometry: 32 lower-case hexadecimal digits; "" when it
                     *   is not known. Equal for equal data, geometry and options, whoever protected it */
  uint32_t devices; /**< number of devices: members of a set, stripe positions of a shared file */
  uint32_t parity;  /**< m */
  uint32_t groups;
  uint32_t group_size; /**< devices of the largest group */
  uint32_t block_size; /**< bytes */
  uint64_t unit;       /**< bytes on one device before the next */
  uint64_t bytes;      /**< of data */
  uint64_t sidecar_bytes;
  uint64_t generation;    /**< number of commits; 0 before the first */
  int64_t commit_time_ns; /**< of the last commit: nanoseconds since 1970-01-01 UTC; 0 when there was none */
  int32_t committed;      /**< lzy_protect: 1 when a commit was made, 0 when the protection was up to date */
  uint64_t bytes_read;    /**< by all processes, for this operation */
  uint64_t bytes_encoded; /**< lzy_protect: data bytes for which parity was made */
  size_t damage_count;    /**< entries for lzy_report_damage */
  size_t warning_count;   /**< entries for lzy_report_warning */
  /* Where the time went, in seconds. read to write are sums over a process's threads divided by their number, sync
   * and total are elapsed; of several processes, that of the slowest. 0 where an operation does not measure it. */
  double seconds_read;
  double seconds_hash;
  double seconds_encode;
  double seconds_exchange;
  double seconds_write;
  double seconds_sync;
  double seconds_total;
  size_t not_visible_count; /**< entries for lzy_report_not_visible */
} lzy_dataset;

/** A member of a set that no process of the operation sees, and that may be on the disk of another node. Belongs to the report; later
 *  versions add fields at the end. */
typedef struct lzy_not_visible {
  uint32_t device;  /**< its rank */
  const char* path;
  const char* node; /**< on which it was written; "" if that is not known */
} lzy_not_visible;

/** One range of bytes that is, or was, not as it should be; neighbouring blocks with the same fields are one entry.
 *  Belongs to the report; later versions add fields at the end. */
typedef struct lzy_damage {
  const char* path; /**< the file that offset and length are about: a data file; for parity and metadata, a sidecar */
  uint32_t device;  /**< number of the device: the rank of a set's member, the stripe position in a shared file */
  lzy_part part;
  uint64_t offset;
  uint64_t length;
  lzy_cause cause;
  int32_t transient;          /**< 1: a second reading, from the device, was right */
  int32_t repaired;           /**< 1: mended by this operation */
  int32_t beyond_repair;      /**< 1: parity does not suffice */
  /* What lies there, if the file is HDF5 or netCDF. lzy_info names nothing. If names are missing, a warning says why. */
  const char* const* objects; /**< paths of datasets, groups or variables; "" for unused space; object_count of them. One
                               *   of which several chunks are hit comes several times */
  size_t object_count;
  const char* const* object_texts; /**< of the same, what of it is hit, for people, as lzy-verify prints it:
                                    *   "/fields/T (raw data, chunk [3, 0], elements [768, 0] to [799, 255])" */
  uint64_t objects_left_off;       /**< how many more there are */
} lzy_damage;

/** The code that the operation returned; LZY_NO_MEMORY for NULL. */
LZY_API int lzy_report_code(const lzy_report* report);

/** Why the operation as a whole failed, or failed first (a bad option or path, a directory that cannot be read), for
 *  people: names the thing, its value and what is accepted. "" when nothing did; what is wrong with single datasets is
 * in their own messages. */
LZY_API const char* lzy_report_message(const lzy_report* report);

/** The number of datasets, sorted by path; 0 for NULL. */
LZY_API size_t lzy_report_count(const lzy_report* report);

/** Dataset number `index`, from 0; NULL when there is none. */
LZY_API const lzy_dataset* lzy_report_dataset(const lzy_report* report, size_t index);

/** Entry number `entry`, from 0, of the damage of dataset number `index`; NULL when there is none. */
LZY_API const lzy_damage* lzy_report_damage(const lzy_report* report, size_t index, size_t entry);

/** Warning number `entry`, from 0, of dataset number `index`: a complete sentence for people; NULL when there is none.
 */
LZY_API const char* lzy_report_warning(const lzy_report* report, size_t index, size_t entry);

/** Entry number `entry`, from 0, of the members of dataset number `index` that are not visible; NULL when there is none. */
LZY_API const lzy_not_visible* lzy_report_not_visible(const lzy_report* report, size_t index, size_t entry);

/** Of lzy_diff: how many pairs of files differ or are not known, and one of them, by name; NULL if there is none. The
 *  number of files that are the same. */
LZY_API size_t lzy_report_difference_count(const lzy_report* report);
LZY_API const lzy_difference* lzy_report_difference(const lzy_report* report, size_t index);
LZY_API uint64_t lzy_report_same(const lzy_report* report);

/** Frees a report and all that was got from it. NULL is accepted. */
LZY_API void lzy_report_free(lzy_report* report);

#ifdef __cplusplus
}
#endif

#endif /* LZY_LZY_H */
