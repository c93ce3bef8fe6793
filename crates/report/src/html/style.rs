//! The only style sheet of the page: light and dark by the reader's preference, one column from 360 px up, and for
//! print.

/// The colours are Okabe and Ito's, which colour-blind readers can distinguish, darkened or lightened to a contrast of
/// 3:1 against the page (WCAG 1.4.11). Series differ by colour and by dash or outline, so colour is not needed to
/// distinguish them. `palette` assigns the colours.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--dim:#57606a;--bg:#fff;--box:#f6f8fa;--line:#d0d7de;--good:#116329;--bad:#b3261e;\
--open:#7a4d00;--c0:#0072b2;--c1:#d55e00;--c2:#008560;--c3:#6b7480;--c4:#b0528c;--c5:#2483b0;--c6:#a67400;--c7:#7a5230}
@media (prefers-color-scheme:dark){:root{--fg:#e6edf3;--dim:#9aa4af;--bg:#0d1117;--box:#161b22;--line:#30363d;--good:#56d364;\
--bad:#ff7b72;--open:#e3b341;--c0:#56b4e9;--c1:#ff9a57;--c2:#3fc79a;--c3:#a5afba;--c4:#e29fc6;--c5:#8fd0ff;--c6:#e8bd4a;--c7:#cfa27a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:1100px;margin:0 auto;padding:1rem 1.25rem}
h1{font-size:1.15rem;line-height:1.3;margin:.5rem 0;color:var(--dim);font-weight:600}
h2{font-size:1.2rem;border-bottom:1px solid var(--line);margin:2rem 0 .75rem}
h3{font-size:1rem;margin:0 0 .25rem}
.answer{font-size:1.6rem;line-height:1.3;font-weight:600;margin:.25rem 0 1rem;max-width:45rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.75rem;margin:1rem 0}
.figure{border:1px solid var(--line);border-radius:.4rem;padding:.6rem .8rem;background:var(--box)}
.figure .value{font-size:1.45rem;font-weight:600;line-height:1.3;font-variant-numeric:tabular-nums}
.figure .unit{font-size:1rem;font-weight:400}
.figure .what,.figure .beside{color:var(--dim);font-size:.85rem}
.trend{width:7.5rem;height:1.5rem;margin:.15rem 0}
nav{display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:1rem 0;font-size:.9rem}
a{color:var(--c0)}
.by,.basis,figcaption,dt{color:var(--dim)}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:.1rem 1rem;margin:.5rem 0}
dd{margin:0;min-width:0}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;overflow-wrap:normal;font-size:.9rem}
caption{text-align:left;font-weight:600;padding-bottom:.25rem}
th,td{padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
thead th{color:var(--dim);font-weight:600}
td.n,th.n{text-align:right}
td.n{white-space:nowrap}
td:not(.n){min-width:5.5rem}td:last-child:not(.n){min-width:11rem}
td.z{color:var(--dim)}
figure{margin:1.25rem 0;max-width:45rem}
svg{display:block;width:100%;height:auto}
svg text{font:13px system-ui,sans-serif;fill:var(--dim)}
svg text.name,svg text.value{fill:var(--fg)}
svg .grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.area{stroke-width:1.5;fill-opacity:.55}
.bar{stroke-width:1.5}
.k{display:inline-block;vertical-align:middle;width:2rem;height:.8rem;margin-right:.4rem}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.25rem 0}
details{margin:.25rem 0}
summary{cursor:pointer}
figcaption summary{color:var(--dim);font-size:.9rem}
.part>summary{border-bottom:1px solid var(--line);margin:1rem 0 .5rem}
.part>summary h2{display:inline-block;border:0;margin:0;font-size:1.05rem}
.claim{border-left:.25rem solid var(--dim);padding:.1rem 0 .1rem .75rem;margin:.4rem 0}
.claim .mark{font-weight:700}.claim .word,.claim .brief{color:var(--dim);font-size:.85rem}.claim .brief{margin-left:.5rem}
.claim>p,.claim>dl{margin-left:1.1rem;font-size:.9rem}
.card{border:1px solid var(--line);border-left:.3rem solid var(--dim);background:var(--box);padding:.75rem 1rem;margin:1rem 0;border-radius:.25rem}
.card dl{grid-template-columns:minmax(0,1fr)}.card dt{font-size:.85rem}
.holds{border-left-color:var(--good)}.error,.fails{border-left-color:var(--bad)}.warning,.undecided,.void{border-left-color:var(--open)}
.holds .mark{color:var(--good)}.fails .mark{color:var(--bad)}.undecided .mark,.void .mark{color:var(--open)}
pre{margin:.25rem 0;padding:.5rem;background:var(--bg);border:1px solid var(--line);overflow-x:auto;white-space:pre}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.line.c1{stroke-dasharray:9 3}.line.c2{stroke-dasharray:3 3}.line.c3{stroke-dasharray:10 3 2 3}.line.c5{stroke-dasharray:9 3}.line.c6{stroke-dasharray:3 3}.line.c7{stroke-dasharray:10 3 2 3}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
.line.light{stroke-dasharray:1.5 4;stroke-linecap:round}.bar.light,.area.light{fill-opacity:.3;stroke-dasharray:4 3}
@media (max-width:640px){svg text{font-size:24px}main{padding:.75rem}.answer{font-size:1.3rem}.cards{grid-template-columns:repeat(auto-fill,minmax(8rem,1fr))}}
@media print{details:not([open]){display:none}nav{display:none}}
";
