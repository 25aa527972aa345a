// The alarms, the newest first, and what people do about them.
import { useState } from "preact/hooks";
import type { Alarm } from "../api";
import { count, int, plain, points } from "../format";
import { Section, Time } from "../parts";
import type { Ask, ViewProps } from "./view";

function Acknowledge({ alarm, ask }: { alarm: Alarm; ask: Ask }) {
  const [note, setNote] = useState("");
  const [state, setState] = useState({ sending: false, error: "" });
  const id = alarm.id ?? "";
  const send = async () => {
    setState({ sending: true, error: "" });
    try {
      await ask.acknowledge(id, note);
    } catch (error) {
      setState({ sending: false, error: (error as Error).message });
    }
  };
  return <form onSubmit={(event) => { event.preventDefault(); void send(); }}>
    <label><span class="hidden">Note about alarm {id}</span>
      <input value={note} placeholder="what was done, or by whom" onInput={({ currentTarget }) => setNote(currentTarget.value)} /></label>
    <button type="submit" disabled={state.sending}>Acknowledge<span class="hidden"> alarm {id}</span></button>
    {state.error !== "" && <span class="lost" role="alert">{state.error}</span>}
  </form>;
}

function Limit({ limit, ask }: { limit: number; ask: Ask }) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const send = async () => {
    try {
      await ask.setErrorLimit(Number(text) / 100);
      setText("");
      setError("");
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return <form onSubmit={(event) => { event.preventDefault(); void send(); }}>
    <label>Limit of the error: {points(limit)} points. New limit{" "}
      <input class="short" inputMode="decimal" value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} /> points</label>
    <button type="submit" disabled={!(Number(text) > 0)}>Change</button>
    {error !== "" && <span class="lost" role="alert">{error}</span>}
  </form>;
}

function aboutOf(alarm: Alarm): string {
  if (alarm.label !== undefined) return alarm.label;
  if (alarm.isOverflowGroup === true) return "(other groups)";
  return alarm.groupValue ?? "";
}

export function AlarmsView({ calibration, ask }: ViewProps) {
  const alarms = calibration.alarms ?? [];
  const limit = calibration.error?.limit;
  if (limit === undefined) return null;
  const raised = calibration.error?.acknowledgedLimit;
  return <Section title="Alarms" id="alarms">
    {alarms.length === 0 ? <p class="empty">no alarm</p>
      : <div class="scroll" tabIndex={0} role="group" aria-label="Alarms"><table>
        <thead><tr><th scope="col" class="number">no.</th><th scope="col">kind</th><th scope="col">of</th><th scope="col">raised</th>
          <th scope="col" class="number">row</th><th scope="col">acknowledged</th></tr></thead>
        <tbody>{alarms.map((alarm) => <tr key={alarm.id} class={alarm.acknowledgeTime === undefined ? "active" : ""}>
          <td class="number">{alarm.id}</td>
          <td>{alarm.kind}</td>
          <td><bdi>{plain(aboutOf(alarm))}</bdi></td>
          <td><Time time={alarm.raiseTime} /></td>
          <td class="number">{count(int(alarm.observation))}</td>
          <td>{alarm.acknowledgeTime === undefined ? ask && <Acknowledge alarm={alarm} ask={ask} />
            : <><Time time={alarm.acknowledgeTime} /> <bdi>{plain(alarm.note ?? "")}</bdi></>}</td>
        </tr>)}</tbody>
      </table></div>}
    {ask !== undefined && <Limit limit={limit} ask={ask} />}
    {raised !== undefined && <p class="note">Acknowledged up to {points(raised)} points.</p>}
  </Section>;
}
