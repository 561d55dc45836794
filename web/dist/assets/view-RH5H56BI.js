import{d as n}from"./chunk-V5KZCUB3.js";function r(e){return n("h1",{children:e.name})}export{r as TargetView};
