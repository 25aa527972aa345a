#include "server/store/postgres/queries.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/store/postgres/log_tables.h"

namespace calibd::server::queries {
namespace {

constexpr std::size_t kTableCount = LogTables::kTables;

// One query for each table. $T in the text is its number.
class QueryOfTables {
 public:
  QueryOfTables(const std::string& name, const std::string& text) {
    for (std::size_t table = 0; table < kTableCount; ++table) {
      queries_[table] = {absl::StrCat(name, "_", table),
                         absl::StrReplaceAll(text, {{"$T", absl::StrCat(table)}})};
    }
  }
  const PgQuery& of(std::int64_t table) const { return queries_[static_cast<std::size_t>(table)]; }

 private:
  std::array<PgQuery, kTableCount> queries_;
};

// FOR SHARE, because FOR KEY SHARE would let another owner take the cell meanwhile.
#define CALIBD_FENCE                                                                              \
  "fence AS MATERIALIZED (SELECT cell FROM cells WHERE cell = $1::int4 AND epoch = $2::int8 AND " \
  "owner = $3::uuid FOR SHARE)"

}  // namespace

const PgQuery kBeginTransaction{"begin", "BEGIN"};
const PgQuery kCommitTransaction{"commit", "COMMIT"};
const PgQuery kRollbackTransaction{"rollback", "ROLLBACK"};
const PgQuery kPing{"ping", "SELECT 1"};

const PgQuery kReadMeta{"read_meta", "SELECT format, cells, store_id, generation FROM meta"};
const PgQuery kReadOwner{
    "read_owner",
    "SELECT c.epoch, n.address, (extract(epoch FROM n.expires_at - clock_timestamp()) * "
    "1000)::int8, c.owner FROM cells c LEFT JOIN nodes n ON n.node = c.owner AND n.node <> "
    "$2::uuid AND n.expires_at > clock_timestamp() WHERE c.cell = $1::int4"};
const PgQuery kLockCell{"lock_cell", "SELECT 1 FROM cells WHERE cell = $1::int4 FOR UPDATE"};
// It is a statement after kLockCell, so that it sees the heartbeats that were under way.
const PgQuery kTakeCell{
    "take_cell",
    "UPDATE cells SET epoch = epoch + 1, owner = $3::uuid WHERE cell = $1::int4 AND epoch = "
    "$2::int8 AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.node = cells.owner AND n.node <> "
    "$3::uuid AND n.expires_at > clock_timestamp()) "
    "RETURNING epoch, next_model_id, first_generation, newest_log_id"};
const PgQuery kEndStopped{
    "end_stopped",
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.datname = "
    "current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid() AND "
    "a.wait_event = 'ClientRead' AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND "
    "l.relation = 'cells'::regclass AND l.mode = 'RowShareLock')"};
const PgQuery kLimitBeat{"limit_beat", "SET lock_timeout = 2000"};
const PgQuery kBeat{
    "beat",
    "WITH " CALIBD_FENCE
    ", beat AS (INSERT INTO nodes (node, address, version, expires_at) SELECT $3::uuid, $4::text, "
    "$5::text, clock_timestamp() + $6::int8 * interval '1 millisecond' FROM (SELECT count(*) AS n "
    "FROM fence) f WHERE f.n >= 0 ON CONFLICT (node) DO UPDATE SET expires_at = "
    "greatest(nodes.expires_at, excluded.expires_at)) "
    "SELECT (SELECT count(*) FROM fence), (extract(epoch FROM clock_timestamp()) * "
    "1000000)::int8, (current_setting('synchronous_standby_names') <> '')::int4"};
const PgQuery kLeaveNodes{"leave_nodes",
                          "DELETE FROM nodes WHERE node = $1::uuid OR expires_at < "
                          "clock_timestamp() - interval '1 day'"};
const PgQuery kLeaveCell{"leave_cell",
                         "UPDATE cells SET epoch = epoch + 1, owner = NULL WHERE cell = $1::int4 "
                         "AND epoch = $2::int8 AND owner = $3::uuid"};
const PgQuery kFence{"fence", "WITH " CALIBD_FENCE " SELECT 1 FROM fence"};

const PgQuery& OwnerState(std::int64_t table) {
  static const QueryOfTables kQuery(
      "owner_state",
      "SELECT next_model_id, newest_log_id, EXISTS (SELECT 1 FROM log_$T WHERE cell = $1::int4 AND "
      "log_id = $4::int8)::int4 FROM cells WHERE cell = $1::int4 AND epoch = $2::int8 AND owner = "
      "$3::uuid");
  return kQuery.of(table);
}

const PgQuery& AppendTo(std::int64_t table) {
  static const QueryOfTables kQuery(
      "append",
      "WITH " CALIBD_FENCE
      ", ins AS (INSERT INTO log_$T (cell, log_id, model_id, time_us, data) SELECT f.cell, "
      "$4::int8 "
      "+ b.o - 1, b.m, b.t, b.d FROM fence f, unnest($5::int8[], $6::int8[], $7::bytea[]) WITH "
      "ORDINALITY b(m, t, d, o) ON CONFLICT DO NOTHING RETURNING 1) "
      "SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM ins)");
  return kQuery.of(table);
}

const PgQuery& CopyBatches(std::int64_t from, std::int64_t to) {
  static const std::array<PgQuery, kTableCount* kTableCount> kQueries = [] {
    std::array<PgQuery, kTableCount * kTableCount> queries;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      queries[i] = {
          absl::StrCat("copy_", i),
          absl::StrReplaceAll(
              "WITH " CALIBD_FENCE ", source AS MATERIALIZED (SELECT l.* FROM fence f, "
              "unnest($4::int8[]) id JOIN log_$S "
              "l ON l.cell = $1::int4 AND l.log_id = id), ins AS (INSERT INTO log_$T (cell, "
              "log_id, "
              "model_id, time_us, data) SELECT cell, log_id, model_id, time_us, data FROM source "
              "ON CONFLICT DO NOTHING) "
              "SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM source)",
              {{"$S", absl::StrCat(i / kTableCount)}, {"$T", absl::StrCat(i % kTableCount)}})};
    }
    return queries;
  }();
  return kQueries[static_cast<std::size_t>(from) * kTableCount + static_cast<std::size_t>(to)];
}

const PgQuery kRaiseFirst{
    "raise_first",
    "UPDATE cells SET first_generation = greatest(first_generation, $4::int8), newest_log_id = "
    "greatest(newest_log_id, $5::int8) WHERE cell = $1::int4 AND epoch = $2::int8 AND owner = "
    "$3::uuid RETURNING 1"};

const PgQuery& ReadFrom(std::int64_t table) {
  static const QueryOfTables kQuery("read",
                                    "SELECT l.log_id, l.data FROM unnest($2::int8[]) id JOIN "
                                    "log_$T l ON l.cell = $1::int4 AND l.log_id = id");
  return kQuery.of(table);
}

const PgQuery& ReplayOf(std::int64_t first_generation, std::int64_t newest_generation) {
  // The conditions outside of the union let the server merge the indexes of the tables.
  static const std::array<PgQuery, kTableCount* kTableCount> kQueries = [] {
    std::array<PgQuery, kTableCount * kTableCount> queries;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      std::string tables;
      for (std::size_t k = 0; k <= i % kTableCount; ++k) {
        const std::size_t table = (i / kTableCount + k) % kTableCount;
        absl::StrAppend(&tables, k == 0 ? "" : " UNION ALL ",
                        "SELECT cell, log_id, model_id, time_us, data, ", table,
                        " AS number FROM log_", table);
      }
      queries[i] = {
          absl::StrCat("replay_", i),
          absl::StrCat("SELECT log_id, model_id, time_us, data, number FROM (", tables,
                       ") r WHERE cell = $1::int4 AND log_id > $2::int8 ORDER BY log_id")};
    }
    return queries;
  }();
  return kQueries[static_cast<std::size_t>(LogTables::TableOf(first_generation)) * kTableCount +
                  static_cast<std::size_t>(newest_generation - first_generation)];
}

const PgQuery& MarkerOf(std::int64_t table) {
  static const QueryOfTables kQuery("marker", "SELECT log_id FROM log_$T WHERE cell = -1");
  return kQuery.of(table);
}

// A TRUNCATE that waits would let everything that reads the table wait too.
const PgQuery kLimitWait{"limit_wait", "SET LOCAL lock_timeout = 100"};
const PgQuery kLockGeneration{"lock_generation", "SELECT generation FROM meta FOR UPDATE"};
const PgQuery kLowestFirst{"lowest_first", "SELECT min(first_generation) FROM cells"};
const PgQuery& EmptyTable(std::int64_t table) {
  static const QueryOfTables kQuery("empty", "TRUNCATE ONLY log_$T");
  return kQuery.of(table);
}
const PgQuery& MarkTable(std::int64_t table) {
  static const QueryOfTables kQuery(
      "mark",
      "INSERT INTO log_$T (cell, log_id, model_id, time_us, data) VALUES (-1, $1::int8, 0, "
      "0, '')");
  return kQuery.of(table);
}
const PgQuery kSetGeneration{"set_generation", "UPDATE meta SET generation = $1::int8"};

const PgQuery kReadModels{
    "read_models",
    "SELECT m.model_id, m.declaration, s.data, s.log_id, s.first_log_id, s.matured_log_id FROM "
    "models m LEFT JOIN snapshots s ON s.cell = $1::int4 AND s.model_id = m.model_id WHERE m.cell "
    "= "
    "$1::int4 AND m.model_id > $2::int8 ORDER BY m.model_id"};
const PgQuery kReadCursors{
    "read_cursors",
    "SELECT model_id, producer_id, epoch, last_sequence, contents FROM cursors WHERE cell = "
    "$1::int4 AND (model_id, producer_id) > ($2::int8, $3::bytea) ORDER BY model_id, producer_id"};
// When a transaction is run again, the model exists.
const PgQuery kInsertModel{
    "insert_model",
    "INSERT INTO models (cell, model_id, name, declaration) VALUES ($1::int4, $2::int8, $3::text, "
    "$4::bytea) ON CONFLICT (cell, model_id) DO NOTHING"};
const PgQuery kRaiseNextModel{"raise_next_model",
                              "UPDATE cells SET next_model_id = greatest(next_model_id, $2::int8) "
                              "WHERE cell = $1::int4"};
const PgQuery kDeleteModel{"delete_model",
                           "DELETE FROM models WHERE cell = $1::int4 AND model_id = $2::int8"};
const PgQuery kDeleteCursors{"delete_cursors",
                             "DELETE FROM cursors WHERE cell = $1::int4 AND model_id = $2::int8"};
const PgQuery kDeleteSnapshot{
    "delete_snapshot", "DELETE FROM snapshots WHERE cell = $1::int4 AND model_id = $2::int8"};
const PgQuery kDeleteModelHistory{
    "delete_model_history", "DELETE FROM history WHERE cell = $1::int4 AND model_id = $2::int8"};
const PgQuery kPutCursor{
    "put_cursor",
    "INSERT INTO cursors (cell, model_id, producer_id, epoch, last_sequence, contents) VALUES "
    "($1::int4, $2::int8, $3::bytea, $4::int8, $5::int8, $6::bytea) ON CONFLICT (cell, model_id, "
    "producer_id) DO UPDATE SET epoch = excluded.epoch, last_sequence = excluded.last_sequence, "
    "contents = excluded.contents"};
const PgQuery kDeleteCursor{"delete_cursor",
                            "DELETE FROM cursors WHERE cell = $1::int4 AND model_id = $2::int8 AND "
                            "producer_id = $3::bytea"};
const PgQuery kPutSnapshot{
    "put_snapshot",
    "INSERT INTO snapshots (cell, model_id, log_id, first_log_id, matured_log_id, data) VALUES "
    "($1::int4, $2::int8, $3::int8, $4::int8, $5::int8, $6::bytea) ON CONFLICT (cell, model_id) DO "
    "UPDATE SET log_id = excluded.log_id, first_log_id = excluded.first_log_id, matured_log_id = "
    "CASE WHEN excluded.matured_log_id = 0 THEN snapshots.matured_log_id ELSE "
    "excluded.matured_log_id END, data = excluded.data"};
const PgQuery kPutHistory{
    "put_history",
    "INSERT INTO history (cell, model_id, resolution, start_s, data) VALUES ($1::int4, $2::int8, "
    "$3::int8, $4::int8, $5::bytea) ON CONFLICT (cell, model_id, resolution, start_s) DO UPDATE "
    "SET "
    "data = excluded.data"};
const PgQuery kDeleteHistory{
    "delete_history",
    "DELETE FROM history WHERE cell = $1::int4 AND model_id = $2::int8 AND "
    "resolution = $3::int8 AND start_s < $4::int8"};
const PgQuery kReadHistory{
    "read_history",
    "SELECT start_s, data FROM history WHERE cell = $1::int4 AND model_id = $2::int8 AND "
    "resolution "
    "= $3::int8 AND start_s >= $4::int8 AND start_s < $5::int8 ORDER BY start_s"};
const PgQuery kNextHistory{
    "next_history",
    "SELECT model_id, resolution FROM history WHERE cell = $1::int4 AND (model_id, resolution) > "
    "($2::int8, $3::int8) ORDER BY model_id, resolution LIMIT 1"};
const PgQuery kCatalogBytes{
    "catalog_bytes",
    "SELECT sum(pg_total_relation_size(name::regclass))::int8 FROM unnest('{models,cursors,"
    "snapshots,history}'::text[]) name"};
const PgQuery kDurability{"durability",
                          "SELECT current_setting('fsync'), current_setting('full_page_writes')"};

}  // namespace calibd::server::queries
