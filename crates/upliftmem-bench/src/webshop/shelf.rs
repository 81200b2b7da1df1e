//! Where products are kept: in memory while they are few, else in a file without a name.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::product::Product;

/// More products than this go to disk: their texts take some four kilobytes each.
const IN_MEMORY_MAX: usize = 20_000;

/// Products by their number.
#[derive(Debug)]
pub(super) enum Shelf {
    Memory(Vec<Arc<Product>>),
    /// Where each product ends in the file.
    Disk {
        file: Mutex<File>,
        ends: Vec<u64>,
    },
}

impl Shelf {
    /// The product; the number must be one of this shelf.
    pub(super) fn get(&self, number: u32) -> io::Result<Arc<Product>> {
        let number = number as usize;
        match self {
            Self::Memory(products) => products.get(number).cloned().ok_or_else(|| no_product(number)),
            Self::Disk { file, ends } => {
                let end = *ends.get(number).ok_or_else(|| no_product(number))?;
                let start = number.checked_sub(1).map_or(0, |before| ends[before]);
                let mut json = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
                // Whoever panicked with the file in hand left nothing but its position, which is set here.
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(&mut json)?;
                drop(file);
                Ok(Arc::new(serde_json::from_slice(&json)?))
            }
        }
    }
}

fn no_product(number: usize) -> io::Error {
    io::Error::other(format!("no product has the number {number}"))
}

/// Takes products one by one and moves to disk when they become many.
#[derive(Debug)]
pub(super) struct Stocking {
    in_memory_max: usize,
    memory: Vec<Arc<Product>>,
    disk: Option<BufWriter<File>>,
    ends: Vec<u64>,
}

impl Default for Stocking {
    fn default() -> Self {
        Self::with_in_memory_max(IN_MEMORY_MAX)
    }
}

impl Stocking {
    pub(super) fn with_in_memory_max(in_memory_max: usize) -> Self {
        Self {
            in_memory_max,
            memory: Vec::new(),
            disk: None,
            ends: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, product: Product) -> io::Result<()> {
        if self.disk.is_none() && self.memory.len() < self.in_memory_max {
            self.memory.push(Arc::new(product));
            return Ok(());
        }
        if self.disk.is_none() {
            self.disk = Some(BufWriter::with_capacity(1 << 20, tempfile::tempfile()?));
            for kept in std::mem::take(&mut self.memory) {
                self.write(&kept)?;
            }
        }
        self.write(&product)
    }

    fn write(&mut self, product: &Product) -> io::Result<()> {
        if let Some(disk) = &mut self.disk {
            let json = serde_json::to_vec(product)?;
            disk.write_all(&json)?;
            let start = self.ends.last().copied().unwrap_or(0);
            self.ends.push(start + json.len() as u64);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<Shelf> {
        Ok(match self.disk {
            None => Shelf::Memory(self.memory),
            Some(disk) => Shelf::Disk {
                file: Mutex::new(disk.into_inner().map_err(io::IntoInnerError::into_error)?),
                ends: self.ends,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(number: usize) -> Product {
        Product {
            asin: format!("B{number:09}"),
            title: format!("Nº {number} \"quoted\""),
            description: "x".repeat(number),
            bullet_points: vec![String::new()],
            price_tag: "$1.0".to_owned(),
            price: 1.1 * number as f64,
            options: vec![("size".to_owned(), vec!["s".to_owned(), "m".to_owned()])],
            attributes: Vec::new(),
            query: String::new(),
            product_category: "A › B".to_owned(),
            title_nouns: Vec::new(),
        }
    }

    #[test]
    fn memory_and_disk_give_the_same() {
        for in_memory_max in [0, 3, 7, 8] {
            let mut stocking = Stocking::with_in_memory_max(in_memory_max);
            for number in 0..7 {
                stocking.add(product(number)).unwrap();
            }
            let shelf = stocking.finish().unwrap();
            assert_eq!(matches!(shelf, Shelf::Disk { .. }), in_memory_max < 7);
            for number in [6, 0, 3, 1] {
                assert_eq!(*shelf.get(number).unwrap(), product(number as usize));
            }
            assert!(shelf.get(7).is_err());
        }
    }
}
