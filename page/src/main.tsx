// The page: all models at #/, and one at #/models/M or #/models/M/versions/V.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { hasSession, logOut } from "./api";
import { ListView } from "./views/list";
import { ModelView } from "./views/model";

function nameOf(hash: string): string {
  const path = hash.replace(/^#\//, "");
  try {
    return /^models\//.test(path) ? decodeURIComponent(path) : "";
  } catch {
    return "";
  }
}

function Page() {
  const [name, setName] = useState(nameOf(location.hash));
  useEffect(() => {
    const follow = () => {
      setName(nameOf(location.hash));
      scrollTo(0, 0);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return <>
    {hasSession() && <p><button type="button" onClick={logOut}>Log out</button></p>}
    {name === "" ? <ListView /> : <ModelView key={name} name={name} />}
  </>;
}

render(<Page />, document.getElementById("page")!);
