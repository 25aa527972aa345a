#ifndef CALIBD_SERVER_STORE_POSTGRES_QUERIES_H_
#define CALIBD_SERVER_STORE_POSTGRES_QUERIES_H_

#include <cstdint>

#include "server/store/postgres/connection.h"

namespace calibd::server::queries {

// The statements of a store. $1 is the cell, unless a comment says otherwise.

extern const PgQuery kBeginTransaction;
extern const PgQuery kCommitTransaction;
extern const PgQuery kRollbackTransaction;
extern const PgQuery kPing;

// ---- Ownership. The fence is a row if the cell belongs to epoch $2 of owner $3.

// -> format, cells, store_id, generation
extern const PgQuery kReadMeta;
// $2: a node -> the epoch of the cell; the address of its owner and the milliseconds until that
// expires, which are NULL unless another node owns it and lives; the owner
extern const PgQuery kReadOwner;
// Locks the cell against its owner and against other nodes that would take it.
extern const PgQuery kLockCell;
// $2: the epoch, $3: the new owner -> epoch, next_model_id, first_generation, newest_log_id; no row
// if the cell has another epoch or an owner that lives
extern const PgQuery kTakeCell;
// Ends sessions of this role that hold a cell and wait for a client that has stopped.
extern const PgQuery kEndStopped;
// Gives the cell up.
extern const PgQuery kLeaveCell;
// Limits how long the session of heartbeats waits for a lock.
extern const PgQuery kLimitBeat;
// The fence; $3 is registered with address $4 and version $5 and lives for $6 ms from now on
// -> the number of rows of the fence, the time of the database in µs since 1970, whether a commit
// waits for a standby
extern const PgQuery kBeat;
// Without a cell. $1: a node, which leaves; others that expired long ago are removed too
extern const PgQuery kLeaveNodes;
// The fence; it holds the cell until the end of the transaction.
extern const PgQuery kFence;
// $4: a batch -> next_model_id, newest_log_id, whether table `table` has the batch
const PgQuery& OwnerState(std::int64_t table);

// ---- The log. Each query exists for each table.

// $4: the first id; $5, $6, $7: model_id, time_us and data of the batches
// -> the number of rows of the fence, the number of inserted batches
const PgQuery& AppendTo(std::int64_t table);
// $4: ids -> the number of rows of the fence, and of batches with these ids in table `from`
const PgQuery& CopyBatches(std::int64_t from, std::int64_t to);
// $4: the new first generation, $5: the newest log id -> a row if the fence held
extern const PgQuery kRaiseFirst;
// $2: ids -> log_id, data
const PgQuery& ReadFrom(std::int64_t table);
// $2: an id; the log after it in the order of ids -> log_id, model_id, time_us, data, table
const PgQuery& ReplayOf(std::int64_t first_generation, std::int64_t newest_generation);
// Without $1. -> the generation of which the table has the marker; no row if it is empty
const PgQuery& MarkerOf(std::int64_t table);

// ---- Rotation, without $1

extern const PgQuery kLimitWait;
// Locks the generation. -> generation
extern const PgQuery kLockGeneration;
// -> the lowest first_generation of all cells
extern const PgQuery kLowestFirst;
const PgQuery& EmptyTable(std::int64_t table);
// $1: the generation
const PgQuery& MarkTable(std::int64_t table);
// $1: the generation
extern const PgQuery kSetGeneration;

// ---- The catalog

// $2: the id after which to begin
// -> model_id, declaration, snapshot, log_id, first_log_id, matured_log_id
extern const PgQuery kReadModels;
// $2, $3: the key after which to begin -> model_id, producer_id, epoch, last_sequence, contents
extern const PgQuery kReadCursors;
// $2: id, $3: name, $4: declaration
extern const PgQuery kInsertModel;
// $2: the lowest possible value
extern const PgQuery kRaiseNextModel;
// $2: id
extern const PgQuery kDeleteModel;
extern const PgQuery kDeleteCursors;
extern const PgQuery kDeleteSnapshot;
extern const PgQuery kDeleteModelHistory;
// $2 to $6 as in the table
extern const PgQuery kPutCursor;
// $2, $3: the key
extern const PgQuery kDeleteCursor;
// $2 to $6: model_id, log_id, first_log_id, matured_log_id, data
extern const PgQuery kPutSnapshot;
// $2 to $5 as in the table
extern const PgQuery kPutHistory;
// $2, $3: the series, $4: the time
extern const PgQuery kDeleteHistory;
// $2, $3: the series, $4, $5: the range -> start_s, data
extern const PgQuery kReadHistory;
// $2, $3: a series -> model_id, resolution
extern const PgQuery kNextHistory;
// Without $1. -> the bytes of the tables of the catalog
extern const PgQuery kCatalogBytes;
// Without $1. -> synchronous_standby_names, fsync, full_page_writes
extern const PgQuery kDurability;

}  // namespace calibd::server::queries

#endif  // CALIBD_SERVER_STORE_POSTGRES_QUERIES_H_
