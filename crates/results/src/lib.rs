//! What runs give: flow records, time series, statistics and their files.
