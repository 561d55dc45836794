import{d as n}from"./chunk-V5KZCUB3.js";function o(){return n("h1",{children:"Operations"})}export{o as OperationsView};
