// All models, the most urgent first, as the server ranks them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Bucket, getBuckets, type Listed } from "../api";
import { IntervalBar } from "../charts/interval";
import { Spark } from "../charts/spark";
import { count, int, plain, shortName } from "../format";
import { useModels } from "../live";
import { Age, Mark, Name, useNow, whenSeen } from "../parts";
import { Status } from "./status";

// Number of rows that are drawn at first, and more each time the end of the table comes near.
const ROWS_AT_A_TIME = 60;
const SPARK_HOURS = 48;

// Tasks run one after another, so that a long list does not burden the server. They never fail.
let last = Promise.resolve();
function enqueue(task: () => Promise<void>) {
  last = last.then(task);
}

// Reads the history when it comes into view, and again when there are new rows and 30 s are over.
function History({ name, limit, rows }: { name: string; limit: number | undefined; rows: string | undefined }) {
  const place = useRef<HTMLSpanElement>(null);
  const [buckets, setBuckets] = useState<Bucket[]>([]);
  const read = useRef({ time: 0, rows: "" });
  useEffect(() => {
    const old = Date.now() - read.current.time > 30_000 && read.current.rows !== rows;
    if (!old || int(rows) === 0) return undefined;
    return whenSeen(place.current!, () => {
      read.current = { time: Date.now(), rows: rows ?? "" };
      enqueue(async () => {
        try {
          const hours = await getBuckets(name, "HOUR", 3600 * SPARK_HOURS);
          setBuckets(hours.buckets.length > 2 ? hours.buckets : (await getBuckets(name, "MINUTE", 3600 * 2)).buckets);
        } catch {
          // The list says that the server does not answer; the old line stays.
        }
      });
    }, "0px");
  }, [name, rows]);
  return <span ref={place} class="spark-place"><Spark buckets={buckets} limit={limit} width={140} height={28} /></span>;
}

// The error of the sentence: of the newest rows, which it then names, if the limit is exceeded and they are of the same part.
function shownOf({ reading, verdict }: Listed) {
  const { interval, newest, subject, newestSubject } = reading?.howBad ?? {};
  return verdict?.limitStatus === "OVER_LIMIT" && subject === newestSubject ? newest ?? interval : interval;
}

function Row({ model, most, now }: { model: Listed; most: number; now: number }) {
  const name = model.model ?? "";
  const { reading, verdict } = model;
  const brief = reading?.howBad?.brief === "" ? reading.howBad.text : reading?.howBad?.brief;
  return <tr>
    <th scope="row"><a href={`#/${name}`}><Mark severity={reading?.severity ?? 0} /><Name name={name} /></a></th>
    <td class="verdict">{plain(reading?.verdict?.text ?? "")}{reading?.warning && <span title={plain(reading.warning.text ?? "")}> ⚠</span>}</td>
    <td class="brief">
      <IntervalBar interval={shownOf(model)} limit={model.error?.limit} most={most} width={150} />
      {plain(brief ?? "")}
    </td>
    <td class="history"><History name={name} limit={model.error?.limit} rows={model.observations} /></td>
    <td class="number"><span class="label">rows </span>{count(int(model.observations))}</td>
    <td class={verdict?.stale ? "number off" : "number"}><span class="label">data age </span>
      <Age time={model.lastObservationTime} now={now} />{verdict?.stale && " ⚠"}</td>
  </tr>;
}

export function ListView() {
  const { value, error, lostSince } = useModels();
  const [filter, setFilter] = useState("");
  const [room, setRoom] = useState(ROWS_AT_A_TIME);
  const end = useRef<HTMLDivElement>(null);
  const now = useNow();
  const slowNow = Math.floor(now / 10_000) * 10_000;
  useEffect(() => {
    document.title = "calibd";
  }, []);
  const sorted = useMemo(() => [...(value ?? [])].sort((a, b) =>
    (b.reading?.severity ?? 0) - (a.reading?.severity ?? 0) || (a.model ?? "").localeCompare(b.model ?? "")), [value]);
  const most = useMemo(() => Math.min(0.5, Math.max(0.05, ...sorted.map((model) => shownOf(model)?.upper ?? 0))), [sorted]);
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const shown = sorted.filter(({ model, reading }) => {
    const text = `${shortName(model ?? "")} ${reading?.verdict?.text ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const isCut = shown.length > room;
  useEffect(() => {
    return isCut ? whenSeen(end.current!, () => setRoom(room + ROWS_AT_A_TIME), "800px") : undefined;
  }, [isCut, room]);
  const rows = useMemo(() => shown.slice(0, room).map((model) =>
    <Row key={model.model} model={model} most={most} now={slowNow} />), [value, filter, room, slowNow]);
  return <>
    <header>
      <h1>calibd</h1>
      <label class="filter">Filter <input type="search" value={filter} placeholder="name or verdict"
        onInput={(event) => setFilter(event.currentTarget.value)} /></label>
      <span class="count" role="status">{value !== undefined && `${count(shown.length)} of ${count(sorted.length)} models`}</span>
      <Status error={error} lostSince={lostSince} />
    </header>
    <main>
      {value !== undefined && value.length === 0 && <p>No models yet.</p>}
      {sorted.length > 0 && <table class="models">
        <thead><tr>
          <th scope="col">Model</th><th scope="col">Verdict</th><th scope="col">Error and limit</th>
          <th scope="col">Last {SPARK_HOURS} h</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Data age</th>
        </tr></thead>
        <tbody>{rows}</tbody>
      </table>}
      <div ref={end} />
    </main>
  </>;
}
