// Numbers and moments as people read them.

const signed = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3, signDisplay: "exceptZero" });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A difference, with its sign and a real minus. */
export const uplift = (value: number): string => signed.format(value).replace("-", "−");
export const number = (value: number): string => plain.format(value).replace("-", "−");
export const count = (value: number): string => whole.format(value);
export const percent = (value: number): string => share.format(value);

export const moment = (at: string): string => day.format(new Date(at));

/** How a moment is written on an axis that spans so many milliseconds. */
export function tick(at: number, span: number): string {
  const written = span < 10 * 60_000 ? seconds : span < 36 * 3_600_000 ? clock : short;
  return written.format(new Date(at));
}

export function ago(at: string, now = Date.now()): string {
  const passed = Math.round((now - new Date(at).getTime()) / 1000);
  if (passed < 0) return moment(at);
  if (passed < 60) return "just now";
  if (passed < 3_600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86_400) return `${Math.floor(passed / 3_600)} h ago`;
  if (passed < 30 * 86_400) return `${Math.floor(passed / 86_400)} d ago`;
  return moment(at);
}

/** The end of an id: ids begin with their time, so that is where they differ. */
export const shortId = (id: string): string => id.slice(-8);

export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;
