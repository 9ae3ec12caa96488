"""Published figures on the same splits, with their sources."""

from __future__ import annotations

BARS = "https://github.com/reczoo/BARS"
OPEN_CF = "https://github.com/xue-pai/Open-CF-Benchmark"
SIMPLEX = "https://github.com/reczoo/RecZoo/tree/main/matching/cf/SimpleX"
ULTRAGCN = "https://github.com/reczoo/RecZoo/tree/main/matching/gnn/UltraGCN"
ENMF = "https://github.com/chenchongthu/ENMF"
BSPM = "https://paperswithcode.com/paper/perturbation-recovery-method-for"
CHEBYCF = "https://github.com/chanwoo0806/ChebyCF"

NAMES = {
    BARS: "BARS",
    OPEN_CF: "Open-CF-Benchmark",
    SIMPLEX: "RecZoo, SimpleX",
    ULTRAGCN: "RecZoo, UltraGCN",
    ENMF: "ENMF",
    BSPM: "Papers with Code, BSPM",
    CHEBYCF: "ChebyCF",
}

# Model, metrics, source.
ROWS: dict[str, list[tuple[str, dict[str, float], str]]] = {
    "gowalla": [
        ("ItemPop", {"recall@20": 0.0416, "ndcg@20": 0.0317}, OPEN_CF),
        ("ItemKNN", {"recall@20": 0.1570, "ndcg@20": 0.1214}, BARS),
        ("MF-BPR", {"recall@20": 0.1627, "ndcg@20": 0.1378}, BARS),
        ("Mult-VAE", {"recall@20": 0.1641, "ndcg@20": 0.1335}, BARS),
        ("SLIM", {"recall@20": 0.1699, "ndcg@20": 0.1382}, BARS),
        ("EASE", {"recall@20": 0.1765, "ndcg@20": 0.1467}, BARS),
        ("ENMF", {"recall@20": 0.1523, "ndcg@20": 0.1315}, BARS),
        ("NGCF", {"recall@20": 0.1570, "ndcg@20": 0.1327}, BARS),
        ("LightGCN", {"recall@20": 0.1830, "ndcg@20": 0.1554}, ULTRAGCN),
        ("YoutubeDNN", {"recall@20": 0.1754, "ndcg@20": 0.1473}, BARS),
        ("MF-CCL", {"recall@20": 0.1837, "ndcg@20": 0.1493}, BARS),
        ("SimpleX", {"recall@20": 0.1872, "ndcg@20": 0.1557}, BARS),
        ("UltraGCN", {"recall@20": 0.1862, "ndcg@20": 0.1580}, BARS),
        ("GF-CF", {"recall@20": 0.1849, "ndcg@20": 0.1518}, BARS),
        ("BSPM-EM", {"recall@20": 0.1920, "ndcg@20": 0.1597}, BSPM),
        ("ChebyCF", {"recall@20": 0.1941, "ndcg@20": 0.1616}, CHEBYCF),
    ],
    "amazon-electronics": [
        ("BPR", {"ndcg@20": 0.0680}, ENMF),
        ("NBPO", {"ndcg@20": 0.0810}, SIMPLEX),
        ("ENMF", {"ndcg@20": 0.0823}, SIMPLEX),
        ("UltraGCN", {"ndcg@20": 0.0829}, SIMPLEX),
        ("SimpleX", {"ndcg@20": 0.0842}, SIMPLEX),
    ],
    "citeulike": [
        ("BPR", {"precision@20": 0.0330, "recall@20": 0.0124}, ENMF),
        ("NGCF", {"precision@20": 0.0517, "recall@20": 0.0193}, SIMPLEX),
        ("DHCF", {"precision@20": 0.0635, "recall@20": 0.0249}, SIMPLEX),
        ("ENMF", {"precision@20": 0.0748, "recall@20": 0.0280}, SIMPLEX),
        ("SimpleX", {"precision@20": 0.0754, "recall@20": 0.0269}, SIMPLEX),
    ],
    "lastfm": [],
}
