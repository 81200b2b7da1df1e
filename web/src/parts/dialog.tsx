// A question before something is done.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "../load";

interface DialogProps {
  title: string;
  /** What the button says; without it there is nothing to confirm. */
  action?: string;
  dangerous?: boolean;
  close(): void;
  /** Done when it resolves; the dialog stays open when it fails. */
  confirm?: () => Promise<void>;
  children: ComponentChildren;
}

export function Dialog({ title, action, dangerous, close, confirm, children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!confirm || busy) return;
    setBusy(true);
    setError(undefined);
    try {
      await confirm();
      close();
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
      setBusy(false);
    }
  };
  return (
    <dialog ref={element} aria-labelledby="dialog-title" onClose={close}>
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error && <Failure error={error} />}
        <div class="buttons">
          <button type="button" onClick={() => element.current?.close()}>
            {action ? "Cancel" : "Close"}
          </button>
          {action && (
            <button type="submit" class={dangerous ? "danger" : "primary"} disabled={busy}>
              {busy ? "One moment…" : action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
