#ifndef LZY_EXCHANGE_H
#define LZY_EXCHANGE_H
/*
 * lzy/exchange.h: messages that are proven. Sending, receiving, broadcasting and gathering as MPI does, with the same arguments in the
 * same order, but what these functions deliver has been compared by its hashes with what was sent. What arrives damaged
 * is found, down to the leaf (16 KiB), and sent again; what cannot be proven is an error on both sides, and never delivered as
 * if it were good. C11 and C++. Link with -llzy. docs/exchange.md describes the protocol.
 *
 * Counts are MPI_Count: messages of any size. Datatypes are whatever is committed, made in any way that MPI tells of; both
 * sides must give types of the same signature, as with MPI, and the same byte order and sizes. Buffers are read and
 * written by the processor. Communicators are intracommunicators.
 *
 * Messages of the program are not disturbed: lzy's travel on two communicators of its own, which are kept as an attribute
 * of the program's communicator, and are freed with it. lzy_exchange_attach makes them; the collective functions do so
 * by themselves when they are called first. Errors are returned, whatever error handler the communicator has.
 *
 * What differs from MPI:
 * - A send is done when the receiver has proven the message (as MPI_Ssend is not done before the receive has begun), so a
 *   program that relies on MPI to buffer what it sends waits forever.
 * - Tags go from 0 to a quarter of MPI_TAG_UB.
 * - Messages make progress only in functions of this header, all of them in each: finish what others wait for before a
 *   long computation or a call of MPI that waits.
 * - A message sent by lzy_send is received by lzy_recv or lzy_irecv only, and one of lzy_validate_send by lzy_validate_recv.
 *
 * Threads: any, if MPI was initialised with MPI_THREAD_MULTIPLE; a collective function by one thread for a communicator at a time.
 * Against whoever changes messages on purpose there is no protection: hashes are XXH3, without a key.
 */

#include <lzy/lzy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What all functions return. Text that names ranks and bytes: lzy_exchange_error_text. */
typedef enum lzy_exchange_code {
  LZY_EXCHANGE_OK = 0,           /**< MPI_SUCCESS: done and proven */
  LZY_EXCHANGE_ARGUMENT = 1,     /**< an argument that is not accepted; nothing was sent or received */
  LZY_EXCHANGE_NOT_ATTACHED = 2, /**< call lzy_exchange_attach first */
  LZY_EXCHANGE_MISMATCH = 3,     /**< the two sides do not fit: more was sent than there is room for (both sides say so), one
                                  *   sends while the other validates, amounts differ. The buffer is not to be used */
  LZY_EXCHANGE_UNPROVEN = 4,     /**< damaged again and again: some bytes could not be proven. The buffer is not to be used;
                                  *   on the sending side: the receiver's buffer */
  LZY_EXCHANGE_MPI = 5,          /**< MPI failed */
  LZY_EXCHANGE_NO_MEMORY = 6,
  LZY_EXCHANGE_INTERNAL = 7      /**< a bug in lzy */
} lzy_exchange_code;

/** Why the last function of this header that failed in this thread did, e.g. "bytes 4096..8191 of the message from rank 0 (tag 7,
 *  1048576 bytes) could not be proven: ..."; "" when none has. Valid until the next one fails. */
LZY_API const char* lzy_exchange_error_text(void);

/** Collective: prepares `comm` for messages; does nothing when that is done. Waits for all ranks as MPI_Comm_dup does, without
 *  progress of other messages. */
LZY_API int lzy_exchange_attach(MPI_Comm comm);
/** Collective: frees what lzy_exchange_attach made, before `comm` is freed. No message may be under way. */
LZY_API int lzy_exchange_detach(MPI_Comm comm);

/** As MPI_Send: `count` elements of `type`. MPI_PROC_NULL is accepted. */
LZY_API int lzy_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
/** As MPI_Recv. MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL and MPI_STATUS_IGNORE are accepted; a shorter message is too, and
 *  MPI_Get_count tells. */
LZY_API int lzy_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status);

/** A message under way, until lzy_wait, lzy_waitall or lzy_test has found it done and made it LZY_REQUEST_NULL. */
typedef struct lzy_request_state* lzy_request;
#define LZY_REQUEST_NULL ((lzy_request)0)

/** As MPI_Isend and MPI_Irecv. When they fail, *request is LZY_REQUEST_NULL. */
LZY_API int lzy_isend(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                      lzy_request* request);
LZY_API int lzy_irecv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                      lzy_request* request);
/** As MPI_Wait, MPI_Test and MPI_Waitall; the code is the message's. Of several, the first that failed in the order of `requests`, with all of
 *  them done; each status has its own in MPI_ERROR. */
LZY_API int lzy_wait(lzy_request* request, MPI_Status* status);
LZY_API int lzy_test(lzy_request* request, int* flag, MPI_Status* status);
LZY_API int lzy_waitall(int count, lzy_request requests[], MPI_Status statuses[]);

/** As MPI_Bcast. A rank with another number of bytes than the root has LZY_EXCHANGE_MISMATCH; the others are served. */
LZY_API int lzy_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
/** As MPI_Allgather; MPI_IN_PLACE is accepted as `sendbuf`. */
LZY_API int lzy_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                          MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

/** For bytes that have been moved already, by whatever means: compares what the receiver has with what the sender has, and
 *  mends the receiver's. The arguments are those of the call that might have moved them. Both sides call; the sender's
 *  buffer counts. */
LZY_API int lzy_validate_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
LZY_API int lzy_validate_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                              MPI_Status* status);
/** The root's buffer counts. */
LZY_API int lzy_validate_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
/** Of each rank, what it sends counts; in place, its own block. */
LZY_API int lzy_validate_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif /* LZY_EXCHANGE_H */
