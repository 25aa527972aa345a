// The choice of a model to compare with.
import { useEffect, useRef, useState } from "preact/hooks";
import { shortName } from "../format";
import type { Answer, Ask, Other } from "./view";

export function OtherChoice({ ask, other }: { ask: Ask; other: Answer<Other> }) {
  const select = useRef<HTMLSelectElement>(null);
  const [pressed, setPressed] = useState(false);
  const isListed = ask.others !== undefined;
  // The list takes the place of the button, so it takes its focus too.
  useEffect(() => {
    if (pressed && isListed) select.current?.focus();
  }, [pressed, isListed]);
  if (ask.others === undefined) {
    return <button type="button" onClick={() => { setPressed(true); ask.listOthers(); }}>Compare…</button>;
  }
  return <>
    <label>with <select ref={select} value={ask.compared} onChange={({ currentTarget }) => ask.compare(currentTarget.value)}>
      <option value="">{ask.others.length === 0 ? "none of its kind" : "no other model"}</option>
      {ask.others.map((name) => <option key={name} value={name}>{shortName(name)}</option>)}
    </select></label>
    {other.wanted && other.value?.model !== ask.compared && <span role="status"> {other.error === "" ? "computing…" : other.error}</span>}
  </>;
}
