package scenario

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// profiled is the duration of the processor profile, in whole seconds. Tests shorten it.
var profiled = 5 * time.Second

// profile takes profiles of the service, if wanted, under the side's load, which it
// repeats for that.
func (s *stage) profile(load side) error {
	if s.Profiles == "" || load.service == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.drive(ctx, profiled+time.Second)
	}()
	defer func() { cancel(); <-done }()
	base := filepath.Join(s.Profiles, s.name+"."+load.name)
	if err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", load.service.Admin, int(profiled.Seconds())), base+".cpu.pprof"); err != nil {
		return err
	}
	return fetch(ctx, "http://"+load.service.Admin+"/debug/pprof/allocs", base+".allocs.pprof")
}

func fetch(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, response.Body); err != nil {
		_ = to.Close()
		return err
	}
	return to.Close()
}

func processors() int { return runtime.NumCPU() }
