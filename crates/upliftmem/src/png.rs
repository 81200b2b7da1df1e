//! Figures as PNG, for slides: the same SVG, drawn with the fonts of this machine.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::output::Output;

/// Draws a figure beside its SVG file, and says where. None where there are no fonts, which is told once.
#[cfg(feature = "png")]
pub(crate) fn beside(file: &Path, svg: &str, output: Output) -> Result<Option<PathBuf>> {
    use anyhow::Context as _;

    static TOLD: std::sync::Once = std::sync::Once::new();
    if drawing::FONTS.is_empty() {
        TOLD.call_once(|| {
            output.note(
                "no PNG of the figures: this machine has no fonts, so their text would be missing\n  \
                 a package of fonts, e.g. fonts-dejavu-core, changes that",
            );
        });
        return Ok(None);
    }
    let place = file.with_extension("png");
    let bytes = drawing::png(svg).with_context(|| format!("{} can not be drawn", file.display()))?;
    std::fs::write(&place, bytes).with_context(|| format!("{} can not be written", place.display()))?;
    Ok(Some(place))
}

/// This program was built without PNG.
#[cfg(not(feature = "png"))]
#[expect(clippy::unnecessary_wraps, reason = "as with PNG")]
pub(crate) const fn beside(_: &Path, _: &str, _: Output) -> Result<Option<PathBuf>> {
    Ok(None)
}

#[cfg(feature = "png")]
mod drawing {
    use std::sync::{Arc, LazyLock};

    use anyhow::{Context as _, Result};
    use resvg::{
        tiny_skia::{Color, Pixmap, Transform},
        usvg::{
            Options, Tree,
            fontdb::{Database, Family, Query, Stretch, Style, Weight},
        },
    };

    /// Pixels along a unit of the SVG: sharp on a projector.
    pub(super) const SCALE: f32 = 2.0;

    /// The fonts of this machine.
    pub(super) static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let sans = Query {
            families: &[Family::SansSerif],
            ..Query::default()
        };
        // What the machine calls sans-serif need not be installed: any upright font does.
        if fonts.query(&sans).is_none() {
            let upright = fonts.faces().filter(|face| {
                (face.style, face.weight, face.stretch) == (Style::Normal, Weight::NORMAL, Stretch::Normal)
            });
            let families = upright.filter_map(|face| Some((&face.families.first()?.0, face.monospaced)));
            // The shortest name is that of a family, not of its relatives for other scripts.
            let best = families.min_by_key(|&(name, monospaced)| {
                (monospaced, !name.contains("Sans"), name.chars().count(), name)
            });
            if let Some(family) = best.map(|(name, _)| name.clone()) {
                fonts.set_sans_serif_family(family);
            }
        }
        Arc::new(fonts)
    });

    /// A figure as PNG, on white: its ink is dark.
    pub(super) fn png(svg: &str) -> Result<Vec<u8>> {
        let options = Options {
            fontdb: Arc::clone(&FONTS),
            ..Options::default()
        };
        let tree = Tree::from_str(svg, &options)?;
        let pixels = |length: f32| (SCALE * length).ceil() as u32;
        let mut page = Pixmap::new(pixels(tree.size().width()), pixels(tree.size().height()))
            .context("it has no size")?;
        page.fill(Color::WHITE);
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut page.as_mut());
        Ok(page.encode_png()?)
    }

    #[cfg(test)]
    mod tests {
        use upliftmem_bench::figures::{Bar, Bars};

        use super::*;

        #[test]
        fn a_figure_is_drawn_twice_as_large_with_its_bars_and_its_text() {
            let bars = Bars {
                title: "Uplift",
                x: "over no memory",
                bars: vec![Bar {
                    name: "evsi".into(),
                    value: 0.5,
                    interval: Some((0.4, 0.6)),
                }],
            };
            let svg = bars.svg();
            let page = Pixmap::decode_png(&png(&svg).unwrap()).unwrap();
            // 720 wide; a title, one bar and the axis high.
            assert_eq!((page.width(), page.height()), (1440, 268));
            let ink = |wanted: fn(u8, u8, u8) -> bool| {
                let all = page.pixels().iter();
                all.filter(|pixel| wanted(pixel.red(), pixel.green(), pixel.blue()))
                    .count()
            };
            assert!(ink(|r, g, b| (r, g, b) == (0, 0x72, 0xb2)) > 1000, "the bar");
            assert!(ink(|r, g, b| (r, g, b) == (255, 255, 255)) > 100_000, "the page");
            let words = |svg: &str| {
                let without = svg.lines().filter(|line| !line.starts_with("<text"));
                png(&without.collect::<Vec<_>>().join("\n")).unwrap()
            };
            if FONTS.is_empty() {
                println!("skipped: this machine has no fonts, so there is no text to see");
            } else {
                assert_ne!(words(&svg), png(&svg).unwrap(), "its text is drawn");
            }
        }
    }
}
