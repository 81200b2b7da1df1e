//! Figures as plain SVG: lines and bars with intervals, heat maps, histograms. They read well on light and on dark pages.
//!
//! ```
//! use upliftmem_bench::figures::{Lines, Point, Series};
//!
//! let svg = Lines {
//!     title: "Success by budget",
//!     x: "probes",
//!     y: "success, %",
//!     series: vec![Series {
//!         name: "evsi".into(),
//!         points: vec![Point { x: 0.0, y: 40.0, low: 38.0, high: 42.0 }, Point::exact(20.0, 44.0)],
//!     }],
//! }
//! .svg();
//! assert!(svg.starts_with("<svg") && svg.contains("evsi"));
//! ```

mod axis;
mod bars;
mod heat;
mod histogram;
mod lines;

pub use bars::{Bar, Bars};
pub use heat::HeatMap;
pub use histogram::Histogram;
pub use lines::{Lines, Point, Series};

/// Colours that are told apart by people who see few colours, on white and on black.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f", "#8c564b",
];

/// The start of a figure: its size, its name for those who listen to it, its ink.
fn open(width: f64, height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <style>svg {{ color: #222; }} @media (prefers-color-scheme: dark) {{ svg {{ color: #ddd; }} }}</style>\n\
         <title>{title}</title>\n"
    )
}

/// A text at a place; `anchor` is `start`, `middle` or `end`.
fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\">{}</text>\n",
        escape(words)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
