import{e as n}from"./chunk-UJQSONJ5.js";function r(e){return n("h1",{children:e.name})}export{r as TargetView};
