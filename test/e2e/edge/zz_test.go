//go:build linux

package edge
import ("testing";"time";"os";"io";"net/http";"strings";"fmt")
import "github.com/setpoint-dev/setpoint/test/e2e/edge/load"
func TestZZ(t *testing.T){
  p := startAs(t, launch{cpu: 0, measured: true, flags: overloadFlags})
  r:=heavyRequests(t); w:=watch(t,p.cmd.Process.Pid)
  _,peak:=findPeak(t,p,w,r)
  c:=startCallers(t,1,measuredLoad(p,r,load.Phase{Name:"a",Rate:5*peak.rate(),Seconds:15}))
  g:=watch(t,c.pid)
  time.Sleep(6*time.Second)
  get:=func(path,file string){ resp,err:=http.Get("http://"+p.admin+path); must(t,err); b,_:=io.ReadAll(resp.Body); os.WriteFile(file,b,0o600); resp.Body.Close() }
  get("/metrics","/tmp/edge-scratch/m1")
  get("/debug/pprof/profile?seconds=3","/tmp/edge-scratch/cpu.pprof")
  get("/debug/pprof/trace?seconds=0.3","/tmp/edge-scratch/trace.out")
  get("/metrics","/tmp/edge-scratch/m2")
  for l:=range strings.Lines(p.metrics()) { if strings.HasPrefix(l,"setpoint_calls_") { t.Log(strings.TrimSpace(l)) } }
  <-c.ended
  o:=c.phase("a"); ran,held:=w.between(o.from,o.to); r2,h2:=g.between(o.from,o.to)
  t.Logf("%.0f/s p50 %v p90 %v p99 %v ran %.2f held %.2f; callers ran %.2f held %.2f %v", o.rate(), o.quantile(.5),o.quantile(.9), o.quantile(.99), ran,held, r2,h2, o.codes)
  _=fmt.Sprint
}
