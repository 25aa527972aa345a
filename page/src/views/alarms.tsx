// The alarms, the newest first, and what people do about them.
import type { ComponentChildren, InputHTMLAttributes } from "preact";
import { useState } from "preact/hooks";
import type { Alarm } from "../api";
import { count, int, plain, points } from "../format";
import { Section, Time, WideTable } from "../parts";
import type { ViewProps } from "./view";

// A text that is sent. input: attributes of its field. valid: whether the text can be sent.
function Entry({ label, unit, input, button, valid, send }: {
  label: ComponentChildren;
  unit?: string;
  input: InputHTMLAttributes;
  button: ComponentChildren;
  valid: (text: string) => boolean;
  send: (text: string) => Promise<unknown>;
}) {
  const [text, setText] = useState("");
  const [state, setState] = useState({ sending: false, error: "" });
  const submit = async (event: Event) => {
    event.preventDefault();
    setState({ sending: true, error: "" });
    let error = "";
    try {
      await send(text);
      setText("");
    } catch (failure) {
      error = (failure as Error).message;
    }
    setState({ sending: false, error });
  };
  return <form onSubmit={submit}>
    <label>{label} <input {...input} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />{unit}</label>
    <button type="submit" disabled={state.sending || !valid(text)}>{button}</button>
    {state.error !== "" && <span class="lost" role="alert">{state.error}</span>}
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
      : <WideTable label="Alarms">
        <thead><tr><th scope="col" class="number">no.</th><th scope="col">kind</th><th scope="col">of</th><th scope="col">raised</th>
          <th scope="col" class="number">row</th><th scope="col">acknowledged</th></tr></thead>
        <tbody>{alarms.map((alarm) => <tr key={alarm.id} class={alarm.acknowledgeTime === undefined ? "active" : ""}>
          <td class="number">{alarm.id}</td>
          <td>{alarm.kind}</td>
          <td><bdi>{plain(aboutOf(alarm))}</bdi></td>
          <td><Time time={alarm.raiseTime} /></td>
          <td class="number">{count(int(alarm.observation))}</td>
          <td>{alarm.acknowledgeTime === undefined ? ask && <Entry label={<span class="hidden">Note about alarm {alarm.id}</span>}
            input={{ placeholder: "what was done, or by whom" }} button={<>Acknowledge<span class="hidden"> alarm {alarm.id}</span></>}
            valid={() => true} send={(note) => ask.acknowledge(alarm.id ?? "", note)} />
            : <><Time time={alarm.acknowledgeTime} /> <bdi>{plain(alarm.note ?? "")}</bdi></>}</td>
        </tr>)}</tbody>
      </WideTable>}
    {ask !== undefined && <Entry label={`Limit of the error: ${points(limit)} points. New limit`} unit=" points"
      input={{ class: "short", inputMode: "decimal" }} button="Change" valid={(text) => Number(text) > 0}
      send={(text) => ask.setErrorLimit(Number(text) / 100)} />}
    {raised !== undefined && <p class="note">Acknowledged up to {points(raised)} points.</p>}
  </Section>;
}
