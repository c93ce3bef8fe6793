//! The one style sheet of the page: light and dark by the reader's preference, one column from 360 px up, and in print.

/// Series differ by colour and by dash or pattern of their outline, so that colour is not needed to tell them apart.
/// Both palettes keep 3:1 contrast against their background (WCAG 1.4.11).
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--dim:#57606a;--bg:#fff;--box:#f6f8fa;--line:#d0d7de;--good:#116329;--bad:#b3261e;\
--open:#7a4d00;--c0:#0b63ce;--c1:#b35900;--c2:#1a7f37;--c3:#a626a4;--c4:#b3261e;--c5:#0e7c86;--c6:#6b5b00;--c7:#57606a}
@media (prefers-color-scheme:dark){:root{--fg:#e6edf3;--dim:#9aa4af;--bg:#0d1117;--box:#161b22;--line:#30363d;--good:#56d364;\
--bad:#ff7b72;--open:#e3b341;--c0:#79b8ff;--c1:#ffa657;--c2:#56d364;--c3:#d2a8ff;--c4:#ff7b72;--c5:#56d4dd;--c6:#e3d341;--c7:#b1bac4}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.25rem;border-bottom:1px solid var(--line);margin:2rem 0 .75rem}
h3{font-size:1rem;margin:0 0 .25rem}
.by,.basis,figcaption,dt{color:var(--dim)}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:.1rem 1rem;margin:.5rem 0}
dd{margin:0;min-width:0}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;overflow-wrap:normal;font-size:.9rem}
caption{text-align:left;font-weight:600;padding-bottom:.25rem}
th,td{padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}
figure{margin:1.25rem 0}
svg{display:block;width:100%;height:auto}
svg text{font:13px system-ui,sans-serif;fill:var(--dim)}
svg .grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.area{stroke-width:1.5;fill-opacity:.55}
.k{display:inline-block;vertical-align:middle;width:2rem;height:.8rem;margin-right:.4rem}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.25rem 0}
details{margin:.25rem 0}
summary{cursor:pointer;color:var(--dim)}
.card{border:1px solid var(--line);border-left:.3rem solid var(--dim);background:var(--box);padding:.75rem 1rem;margin:1rem 0;border-radius:.25rem}
.card dl{grid-template-columns:minmax(0,1fr)}.card dt{font-size:.85rem}
.holds{border-left-color:var(--good)}.error,.fails{border-left-color:var(--bad)}.warning,.undecided,.void{border-left-color:var(--open)}
pre{margin:.25rem 0;padding:.5rem;background:var(--bg);border:1px solid var(--line);overflow-x:auto;white-space:pre}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1);stroke-dasharray:8 3}.c2{stroke:var(--c2);stroke-dasharray:2 3}.c3{stroke:var(--c3);stroke-dasharray:10 3 2 3}\
.c4{stroke:var(--c4)}.c5{stroke:var(--c5);stroke-dasharray:8 3}.c6{stroke:var(--c6);stroke-dasharray:2 3}.c7{stroke:var(--c7);stroke-dasharray:10 3 2 3}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
@media (max-width:640px){svg text{font-size:24px}main{padding:.75rem}h1{font-size:1.3rem}}
@media print{details{display:none}}
";
/// As many as `style` names; further series begin again.
pub(super) const COLOURS: usize = 8;
