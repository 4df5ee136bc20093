//! Weighted max-min rates of flows over the ports of their paths, by progressive filling of all ports at once.

/// A flow: its weight, its most, and the indices of its ports.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    pub(crate) weight: f64,
    /// bit/s; infinite for a flow with a backlog.
    pub(crate) most: f64,
    pub(crate) ports: Vec<usize>,
}

/// The rates in bit/s of flows through ports of these rates.
pub(crate) fn max_min(rates: &[f64], flows: &[Demand]) -> Vec<f64> {
    let mut left = rates.to_vec();
    let mut shares: Vec<Option<f64>> = vec![None; flows.len()];
    while shares.contains(&None) {
        let mut weights = vec![0.0; rates.len()];
        let active = || flows.iter().enumerate().filter(|(index, _)| shares[*index].is_none());
        for (_, flow) in active() {
            flow.ports.iter().for_each(|&port| weights[port] += flow.weight);
        }
        let level = |port: usize| if weights[port] > 0.0 { left[port] / weights[port] } else { f64::INFINITY };
        let of_flow =
            |flow: &Demand| flow.ports.iter().map(|&port| level(port)).fold(flow.most / flow.weight, f64::min);
        let least = active().map(|(_, flow)| of_flow(flow)).fold(f64::INFINITY, f64::min);
        // The flows at the lowest level have their final rates.
        let fixed: Vec<usize> =
            active().filter(|(_, flow)| of_flow(flow) <= least * (1.0 + 1e-9)).map(|(index, _)| index).collect();
        for index in fixed {
            let rate = least * flows[index].weight;
            flows[index].ports.iter().for_each(|&port| left[port] = (left[port] - rate).max(0.0));
            shares[index] = Some(rate);
        }
    }
    shares.into_iter().flatten().collect()
}

#[test]
fn rates_of_figure_7() {
    // Four flows over A and B, one over A, six over B; then six more over A.
    let flow = |ports: &[usize]| Demand { weight: 1.0, most: f64::INFINITY, ports: ports.to_vec() };
    let mut flows = vec![flow(&[0, 1]); 4];
    flows.push(flow(&[0]));
    flows.extend(vec![flow(&[1]); 6]);
    let rounded = |flows: &[Demand]| -> Vec<i64> {
        max_min(&[1_000.0, 1_000.0], flows).into_iter().map(|rate| (rate * 100.0).round() as i64).collect()
    };
    let rates = rounded(&flows);
    assert_eq!((rates[0], rates[4], rates[5]), (10_000, 60_000, 10_000));
    flows.extend(vec![flow(&[0]); 6]);
    let rates = rounded(&flows);
    assert_eq!((rates[0], rates[4], rates[5], rates[11]), (9_091, 9_091, 10_606, 9_091));
}
