// Answers that stay up to date.
import { useEffect, useState } from "preact/hooks";
import { ApiError, type Calibration, getModel, type Listed, listVerdicts, pathOf, type Schemas } from "./api";
import type { Answer } from "./views/view";

export interface Live<T> {
  value: T | undefined;
  // The server's message, such as that there is no such model.
  error: string;
  // When the server stopped answering; undefined while it answers.
  lostSince: Date | undefined;
}

const LIST_SECONDS = 10;
// A list is read again after so many times what the read took, so that a long one burdens the server less often.
const LIST_REST = 1000;
const MOST_LIST_SECONDS = 60;
const AGAIN_SECONDS = 3;
// The sentences of a state have ages, so that it is read again when it does not change.
const STATE_SECONDS = 60;

// All models, read again from time to time while the page is visible.
export function useModels(): Live<Listed[]> {
  const [live, setLive] = useState<Live<Listed[]>>({ value: undefined, error: "", lostSince: undefined });
  useEffect(() => {
    let timer = 0;
    let ended = false;
    const read = async () => {
      let seconds = LIST_SECONDS;
      const began = performance.now();
      try {
        const value = await listVerdicts();
        seconds = Math.min(MOST_LIST_SECONDS, Math.max(seconds, (LIST_REST * (performance.now() - began)) / 1000));
        if (!ended) setLive({ value, error: "", lostSince: undefined });
      } catch (error) {
        seconds = AGAIN_SECONDS;
        const { message } = error as Error;
        if (!ended) setLive((old) => ({ value: old.value, error: message, lostSince: old.lostSince ?? new Date() }));
      }
      if (!ended) timer = window.setTimeout(next, 1000 * seconds);
    };
    const next = () => {
      if (document.hidden) document.addEventListener("visibilitychange", next, { once: true });
      else void read();
    };
    void read();
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", next);
    };
  }, []);
  return live;
}

// A model, by its stream of events. The stream is opened again whenever it ends.
export function useCalibration(name: string): Live<Calibration> {
  const [live, setLive] = useState<Live<Calibration>>({ value: undefined, error: "", lostSince: undefined });
  useEffect(() => {
    setLive({ value: undefined, error: "", lostSince: undefined });
    let source: EventSource | undefined;
    let timer = 0;
    let ended = false;
    let revision = "0";
    const follow = () => {
      if (ended) return;
      source = new EventSource(`${pathOf(name)}/events?minInterval=1s&afterRevision=${revision}`);
      source.onmessage = ({ data }) => {
        const event = JSON.parse(data) as Schemas["WatchCalibrationResponse"];
        revision = event.revision ?? revision;
        clearTimeout(timer);
        timer = window.setTimeout(() => {
          source?.close();
          revision = "0";
          follow();
        }, 1000 * STATE_SECONDS);
        setLive((old) => ({ value: event.calibration ?? old.value, error: "", lostSince: undefined }));
      };
      source.onerror = (event) => {
        const data: unknown = (event as MessageEvent).data;
        const error = typeof data === "string" ? String(JSON.parse(data).error.message) : "";
        // The reason that a request found holds until the stream opens.
        setLive((old) => ({ value: old.value, error: error || old.error, lostSince: old.lostSince ?? new Date() }));
        // Without a message of the server, a browser that does not try again is told why by a request.
        source?.close();
        clearTimeout(timer);
        timer = window.setTimeout(again, 1000 * AGAIN_SECONDS);
      };
    };
    const again = async () => {
      try {
        await getModel(name);
      } catch (error) {
        // That the server does not answer is said already.
        if (!ended && (error as ApiError).reached) setLive((old) => ({ ...old, error: (error as ApiError).message }));
      }
      follow();
    };
    follow();
    return () => {
      ended = true;
      clearTimeout(timer);
      source?.close();
    };
  }, [name]);
  return live;
}

// The result of a read, which is repeated when `key` changes. The former one stays until then, and without a key there
// is none.
export function useRead<T>(read: () => Promise<T>, key: string | undefined): Answer<T> {
  const [state, setState] = useState<{ value?: T; error: string }>({ error: "" });
  useEffect(() => {
    if (key === undefined) {
      setState({ error: "" });
      return;
    }
    let ended = false;
    read().then(
      (value) => { if (!ended) setState({ value, error: "" }); },
      (error: unknown) => {
        const message = error instanceof ApiError ? error.message : String(error);
        if (!ended) setState((old) => ({ ...old, error: message }));
      });
    return () => { ended = true; };
  }, [key]);
  return { ...state, wanted: key !== undefined };
}
