use upliftmem_core::{window::*, belief::*, acquisition::experiment, *};
use rand::{SeedableRng, RngExt};
use rand_chacha::ChaCha8Rng;
fn normal(r: &mut ChaCha8Rng) -> f64 { let (a,b):(f64,f64)=(1.0-r.random::<f64>(), r.random()); (-2.0*a.ln()).sqrt()*(std::f64::consts::TAU*b).cos() }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let tasks: usize = a[1].parse().unwrap(); let d: usize = a[2].parse().unwrap(); let picks: usize = a[3].parse().unwrap(); let tau: f64 = a[4].parse().unwrap();
    let nobs: usize = a[5].parse().unwrap(); let clusters: usize = a[6].parse().unwrap();
    let full = a.get(7).is_some();
    let e = 32;
    let mut r = ChaCha8Rng::seed_from_u64(7);
    let centers: Vec<Vec<f64>> = (0..clusters).map(|_| (0..e).map(|_| normal(&mut r)).collect()).collect();
    let mut emb = |r: &mut ChaCha8Rng| -> Vec<f64> { let c = &centers[r.random_range(0..clusters)]; let mut v: Vec<f64> = c.iter().map(|x| x + 0.7*normal(r)).collect(); let n = v.iter().map(|x| x*x).sum::<f64>().sqrt(); v.iter_mut().for_each(|x| *x /= n); v };
    let mems: Vec<Vec<f64>> = (0..2000).map(|_| emb(&mut r)).collect();
    let w: Vec<Vec<f64>> = (0..d).map(|_| (0..3*e).map(|_| normal(&mut r)*1.5).collect()).collect();
    let bias: Vec<f64> = (0..d).map(|_| normal(&mut r)*0.3).collect();
    let gelu = |x: f64| 0.5*x*(1.0+(0.7978845608*(x+0.044715*x*x*x)).tanh());
    let feat = |c: &[f64], s: &[usize]| -> Vec<f64> {
        let mut set = vec![0.0; e]; for &m in s { for i in 0..e { set[i] += mems[m][i]; } }
        let mut inp = c.to_vec(); inp.extend(&set); inp.extend((0..e).map(|i| c[i]*set[i]*4.0));
        let mut base = c.to_vec(); base.resize(3*e, 0.0);
        (0..d).map(|k| { let f = |v: &[f64]| gelu(bias[k] + w[k].iter().zip(v).map(|(a,b)| a*b).sum::<f64>()); f(&inp) - f(&base) }).collect()
    };
    // observations -> posterior covariance root
    let mut prec = faer::Mat::<f64>::identity(d, d);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x,y)| x*y).sum::<f64>();
    let recall = |c: &[f64]| -> Vec<usize> { let mut o: Vec<usize> = (0..mems.len()).collect(); o.sort_by(|&x,&y| dot(&mems[y],c).total_cmp(&dot(&mems[x],c))); o.truncate(50); o };
    let scale = 0.15;
    for _ in 0..nobs { let c = emb(&mut r); let cand = recall(&c); let k = r.random_range(1..=5); let mut s: Vec<usize> = (0..k).map(|_| cand[r.random_range(0..50)]).collect(); s.dedup(); let f = feat(&c,&s); for i in 0..d { for j in 0..d { prec[(i,j)] += scale*scale*f[i]*f[j]/0.25; } } }
    let l = prec.llt(faer::Side::Lower).unwrap().L().to_owned();
    // Sigma = prec^-1 = L^-T L^-1 ; root R = L^-T, a = R' phi = L^-1 phi
    let solve = |f: &[f64]| -> Vec<f64> { let mut x = f.to_vec(); for i in 0..d { for j in 0..i { x[i] -= l[(i,j)]*x[j]; } x[i] /= l[(i,i)]; } x };
    let theta: Vec<f64> = solve(&(0..d).map(|_| normal(&mut r)).collect::<Vec<_>>());
    let mut pool = ProbePool { tasks: vec![], probes: vec![] }; let mut fam = ComparisonFamily { comparisons: vec![] };
    let mut belief = PoolBelief::with_capacity(d, tasks*233);
    let wts: Vec<f64> = (0..d).map(|_| normal(&mut r)*0.08).collect(); let _ = theta;
    for t in 0..tasks {
        pool.tasks.push(TaskId::from_name(&t.to_string()));
        let c = emb(&mut r); let cand = recall(&c);
        let size = if t % 5 == 0 { 4 } else { 5 };
        let mut s: Vec<usize> = vec![]; while s.len() < size { let m = cand[r.random_range(0..50)]; if !s.contains(&m) { s.push(m); } }
        let mut sets = vec![s.clone()];
        for i in 0..size { let mut x = s.clone(); x.remove(i); sets.push(x); }
        for &m in &cand { if s.contains(&m) { continue; } if size < 5 { let mut x = s.clone(); x.push(m); sets.push(x); } for i in 0..size { let mut x = s.clone(); x[i] = m; sets.push(x); } }
        let base = pool.probes.len() as u32;
        for (i, set) in sets.iter().enumerate() {
            let f = feat(&c, set); let row: Vec<f64> = f.iter().map(|x| x*scale).collect(); let row = solve(&row);
            belief.push(dot(&f, &wts), &row, 0.16).unwrap();
            pool.probes.push(Probe { task: t as u32, set: MemorySet::EMPTY });
            if i > 0 { fam.comparisons.push(Comparison { task: t as u32, challenger: Side::Probe(base + i as u32), incumbent: Side::Probe(base) }); }
        }
        belief.push_reference(ReferenceBelief { row: vec![], variance: 0.09 }).unwrap();
    }
    println!("n {} m {}", pool.probes.len(), fam.comparisons.len());
    let t = std::time::Instant::now();
    let out = experiment(&pool, &fam, &belief, picks, tau, full).unwrap();
    println!("total {:.2?}; {:?}", t.elapsed(), &out[..out.len().min(8)]);
    let h: u64 = out.iter().fold(0u64, |h, (q,_)| h.wrapping_mul(1000003) ^ *q as u64); println!("picks hash {h:x}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap(); println!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
