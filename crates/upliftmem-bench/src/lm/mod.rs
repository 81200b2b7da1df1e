//! The language-model scorer measured: [how fast it is](speed), what a [whole retrieval](retrieval) takes, and [what it
//! learns](learning).

pub mod learning;
pub mod retrieval;
pub mod speed;
