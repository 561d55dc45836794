//go:build unix

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// childEnv makes TestChild do something: "exit" or "wait".
const childEnv = "REDISTEST_CHILD"

// TestChild is what TestNothingIsLeft runs in another process: it starts servers
// of all kinds, says where they are, and ends without a chance to stop them.
func TestChild(t *testing.T) {
	mode := os.Getenv(childEnv)
	if mode == "" {
		return
	}
	paused := Start(t, Config{})
	paused.Pause()
	sentinel := StartSentinel(t, 1, 1, Config{Directives: []string{"appendonly yes"}, Calm: true})
	servers := []*Server{Shared(t), paused}
	servers = append(servers, sentinel.Servers()...)
	servers = append(servers, sentinel.Sentinels()...)
	g, err := theGuard()
	fatal.If(t, err)
	fmt.Println(childEnv, g.dir, strings.Join(addrs(servers), " "))
	if mode == "exit" {
		os.Exit(0)
	}
	select {}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	Require(t)
	for mode, kill := range map[string]bool{"exit": false, "wait": true} {
		child := exec.Command(os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), childEnv+"="+mode)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		fatal.If(t, err)
		fatal.If(t, child.Start())
		words := said(t, out)
		dir, servers := words[0], words[1:]
		if len(servers) != 5 {
			t.Fatalf("servers %v, want 5", servers)
		}
		if kill {
			for _, addr := range servers {
				if !listens(addr) {
					t.Fatalf("%s does not listen while its process runs", addr)
				}
			}
			fatal.If(t, child.Process.Kill())
		}
		_ = child.Wait() // it was killed
		began := time.Now()
		for _, addr := range servers {
			for listens(addr) {
				if time.Since(began) > startTimeout {
					t.Fatalf("%s: %s still listens %v after its process ended", mode, addr, startTimeout)
				}
				time.Sleep(pollInterval)
			}
		}
		for {
			_, err := os.Stat(dir)
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if time.Since(began) > startTimeout {
				t.Fatalf("%s: %s is still there %v after its process ended", mode, dir, startTimeout)
			}
			time.Sleep(pollInterval)
		}
		t.Logf("%s: nothing left after %v", mode, time.Since(began))
	}
}

// said returns what TestChild prints.
func said(t *testing.T, out io.Reader) []string {
	t.Helper()
	var seen []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), childEnv+" "); ok {
			return strings.Fields(rest)
		}
		seen = append(seen, lines.Text())
	}
	t.Fatalf("the other process printed\n%s", strings.Join(seen, "\n"))
	return nil
}

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
