function t(){let[r,n]=[0,0];return()=>{let e=++r;return()=>e>n&&(n=e)>0}}export{t as a};
