function r(o,n,c){let t=URL.createObjectURL(new Blob([c],{type:n})),e=document.createElement("a");e.href=t,e.download=o,e.click(),setTimeout(()=>URL.revokeObjectURL(t),1e4)}export{r as a};
