// Small things that many pages show.

import type { ComponentChildren, JSX } from "preact";
import { ago, moment, shortId } from "../format";
import { Link } from "../router";

export function When({ at }: { at: string }): JSX.Element {
  return (
    <time dateTime={at} title={moment(at)}>
      {ago(at)}
    </time>
  );
}

export function Badge({ tone, children }: { tone: string; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}

interface StatProps {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: string;
}

export function Stat({ label, value, note, tone = "" }: StatProps): JSX.Element {
  return (
    <div class={`stat ${tone}`}>
      <dt>{label}</dt>
      <dd>{value}</dd>
      {note && <dd class="note">{note}</dd>}
    </div>
  );
}

interface PanelProps {
  title: string;
  about?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

export function Panel({ title, about, actions, children }: PanelProps): JSX.Element {
  return (
    <section class="panel">
      <header>
        <div>
          <h2>{title}</h2>
          {about && <p class="about">{about}</p>}
        </div>
        {actions && <div class="buttons">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

export function Heading({ title, about, actions }: { title: string; about: ComponentChildren; actions?: ComponentChildren }): JSX.Element {
  return (
    <header class="heading">
      <div>
        <h1>{title}</h1>
        <p>{about}</p>
      </div>
      {actions && <div class="buttons">{actions}</div>}
    </header>
  );
}

/** A memory by its text if that is known, else by its id. */
export function MemoryName({ id, text }: { id: string; text?: string | undefined }): JSX.Element {
  return (
    <Link to={`/memories/${id}`} class="memory-name" label={text ?? `Memory ${shortId(id)}`}>
      {text ?? <code>{shortId(id)}</code>}
    </Link>
  );
}

export function More({ more, show }: { more: boolean; show(): void }): JSX.Element | null {
  if (!more) return null;
  return (
    <p class="more">
      <button type="button" onClick={show}>
        Show more
      </button>
    </p>
  );
}

/** Values of a configuration or of metadata. */
export function Facts({ of }: { of: Record<string, unknown> }): JSX.Element {
  return (
    <dl class="facts">
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <dt>
            <code>{name}</code>
          </dt>
          <dd>{typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : JSON.stringify(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
