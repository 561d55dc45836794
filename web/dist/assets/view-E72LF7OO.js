import{e as n}from"./chunk-UJQSONJ5.js";function o(){return n("h1",{children:"Playground"})}export{o as PlaygroundView};
