#ifndef LZY_EXCHANGE_H
#define LZY_EXCHANGE_H
/*
 * lzy/exchange.h: proven messages. The functions send, receive, broadcast and gather as those of MPI do, with the same arguments
 * in the same order. They also compare received data with the sent data by hashes. Damaged parts (leaves of 16 KiB) are found
 * and sent again. If data cannot be proven, both sides get an error. C11 and C++. Link with -llzy. docs/exchange.md describes the
 * protocol.
 *
 * Counts are MPI_Count: messages of any size. Datatypes must be committed, and MPI must be able to describe how they were made. Both
 * sides must use types of the same signature, as with MPI, and the same byte order and sizes. Buffers are read and
 * written by the processor. Communicators are intracommunicators.
 *
 * Messages of the program are not disturbed: lzy uses two communicators of its own, which are kept as an attribute
 * of the program's communicator, and are freed with it. lzy_exchange_attach makes them, or the first call of a collective
 * function. Errors are always returned; the error handler of the communicator is not called.
 *
 * Differences from MPI:
 * - A send is complete only when the receiver has proven the message. (Even MPI_Ssend is complete when the receive has begun.)
 *   So a program that relies on buffering by MPI waits forever.
 * - Tags go from 0 to a quarter of MPI_TAG_UB.
 * - Messages make progress only in functions of this header; each function moves all messages. Finish messages that other
 *   ranks wait for before a long computation or a blocking call of MPI.
 * - Only lzy_recv and lzy_irecv receive a message of lzy_send, and only lzy_validate_recv one of lzy_validate_send.
 *
 * Threads: any thread may call these functions if MPI was initialised with MPI_THREAD_MULTIPLE; for one communicator, one
 * thread at a time may call a collective function. Messages are not protected against forgery: hashes are XXH3, without a
 * key.
 */

#include <lzy/lzy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The results of all functions. lzy_exchange_error_text has a text with ranks and bytes. */
typedef enum lzy_exchange_code {
  LZY_EXCHANGE_OK = 0,           /**< MPI_SUCCESS: done and proven */
  LZY_EXCHANGE_ARGUMENT = 1,     /**< an argument that is not accepted; nothing was sent or received */
  LZY_EXCHANGE_NOT_ATTACHED = 2, /**< call lzy_exchange_attach first */
  LZY_EXCHANGE_MISMATCH = 3,     /**< the two sides do not match: the message is larger than the buffer (both sides fail), one
                                  *   sends while the other validates, or amounts differ. Do not use the buffer */
  LZY_EXCHANGE_UNPROVEN = 4,     /**< some bytes could not be proven after several attempts. Do not use the buffer (on the
                                  *   sending side: the receiver's buffer) */
  LZY_EXCHANGE_MPI = 5,          /**< MPI failed */
  LZY_EXCHANGE_NO_MEMORY = 6,
  LZY_EXCHANGE_INTERNAL = 7      /**< a bug in lzy */
} lzy_exchange_code;

/** The error of the last function of this header that failed in this thread, e.g. "bytes 4096..8191 of the message from rank 0 (tag 7,
 *  1048576 bytes) could not be proven: ..."; "" if none failed. Valid until the next failure. */
LZY_API const char* lzy_exchange_error_text(void);

/** Collective: prepares `comm` for messages; does nothing if it is prepared already. Waits for all ranks as MPI_Comm_dup
 *  does; other messages make no progress meanwhile. */
LZY_API int lzy_exchange_attach(MPI_Comm comm);
/** Collective: frees what lzy_exchange_attach made, before `comm` is freed. No message may be under way. */
LZY_API int lzy_exchange_detach(MPI_Comm comm);

/** As MPI_Send: `count` elements of `type`. MPI_PROC_NULL is accepted. */
LZY_API int lzy_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
/** As MPI_Recv. MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL and MPI_STATUS_IGNORE are accepted. The message may be
 *  shorter; MPI_Get_count returns its length. */
LZY_API int lzy_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status);

/** A message under way. lzy_wait, lzy_waitall and lzy_test set it to LZY_REQUEST_NULL when the message is done. */
typedef struct lzy_request_state* lzy_request;
#define LZY_REQUEST_NULL ((lzy_request)0)

/** As MPI_Isend and MPI_Irecv. If they fail, *request is LZY_REQUEST_NULL. */
LZY_API int lzy_isend(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                      lzy_request* request);
LZY_API int lzy_irecv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                      lzy_request* request);
/** As MPI_Wait, MPI_Test and MPI_Waitall; they return the code of the message. lzy_waitall waits for all messages, and returns
 *  the code of the first one in `requests` that failed; each status has the code of its message in MPI_ERROR. */
LZY_API int lzy_wait(lzy_request* request, MPI_Status* status);
LZY_API int lzy_test(lzy_request* request, int* flag, MPI_Status* status);
LZY_API int lzy_waitall(int count, lzy_request requests[], MPI_Status statuses[]);

/** As MPI_Bcast. A rank with another number of bytes than the root gets LZY_EXCHANGE_MISMATCH; the others get the data. */
LZY_API int lzy_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
/** As MPI_Allgather; MPI_IN_PLACE is accepted as `sendbuf`. */
LZY_API int lzy_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                          MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

/** For data that the receiver already has, by any means: compares the receiver's buffer with the sender's, and corrects
 *  the receiver's. The arguments are those of a call that would transfer the data. Both sides must call. */
LZY_API int lzy_validate_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
LZY_API int lzy_validate_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                              MPI_Status* status);
/** Compares the buffers of all ranks with that of the root, and corrects them. */
LZY_API int lzy_validate_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
/** Compares each block of `recvbuf` with the send buffer of its rank (with MPI_IN_PLACE, with that rank's own block), and
 *  corrects it. */
LZY_API int lzy_validate_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif /* LZY_EXCHANGE_H */
