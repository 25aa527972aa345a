// Whether the page is up to date.
import { utcTime } from "../format";

export function Status({ error, lostSince }: { error: string; lostSince: Date | undefined }) {
  return <span class={lostSince === undefined ? "status" : "status lost"} role="status">
    {lostSince === undefined ? "live" : `connection lost since ${utcTime(lostSince)} UTC. ${error}`}
  </span>;
}
