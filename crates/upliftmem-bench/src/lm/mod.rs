//! The language-model scorer measured: [how fast it is](speed), and [what it learns](learning).

pub mod learning;
pub mod speed;
