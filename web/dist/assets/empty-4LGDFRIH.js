import{a}from"./chunk-XO3WUCKN.js";import{j as e}from"./chunk-WK3FLHLA.js";var s=`{
    "spec": {"minReplicas": 2, "maxReplicas": 10, "metrics": [{
      "type": "External", "external": {
        "metric": {"name": "requests_per_second"},
        "target": {"type": "AverageValue", "averageValue": "100"}}}]},
    "scale": {"specReplicas": 3, "statusReplicas": 3},
    "externalMetrics": [{"metric": {"name": "requests_per_second"}, "value": "450"}]
  }`;function r(){let t=`curl -X POST '${location.origin}/v1/clusters/demo/namespaces/shop/targets/web:recommend' \\
  --data-binary '${s}'`;return e("div",{class:"empty",children:[e("h1",{children:"No targets yet"}),e("p",{children:"A target is a workload that something asks about: how many replicas should it have now, and why? It appears here with the first question, and stays up to date by itself."}),e("h2",{children:"Ask about one"}),e("p",{children:"3 replicas serve 450 requests a second, and each is meant to serve 100. The answer is 5, and this page shows why."}),e(a,{text:t,label:"A request to copy"}),e("h2",{children:"Or have a platform ask"}),e("ul",{class:"plain",children:[e("li",{children:[e("code",{children:"setpoint agent kubernetes"})," runs the HorizontalPodAutoscalers of a cluster, or shadows them."]}),e("li",{children:[e("code",{children:"setpoint agent swarm"})," and ",e("code",{children:"setpoint agent nomad"})," do the same there."]}),e("li",{children:["The ",e("a",{href:"/docs",target:"_blank",rel:"noreferrer",children:"API"})," takes questions from anything that can send JSON."]})]}),e("p",{class:"muted",children:"You see only what the service's policy file lets you read: if targets are missing, ask its maintainer."})]})}export{r as NoTargets};
