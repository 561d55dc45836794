//go:build unix

package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The first signal ends a command's context, and a second one the process, whatever the command still does.
func TestASecondSignalEndsTheProcess(t *testing.T) {
	if os.Getenv("SETPOINT_TEST_SIGNALS") != "" {
		slow := &cobra.Command{Use: "slow", Run: func(cmd *cobra.Command, _ []string) {
			cmd.SetOut(os.Stdout)
			cmd.Println("begun")
			<-cmd.Context().Done()
			time.Sleep(100 * time.Millisecond) // for the signal's default to come back
			cmd.Println("ending")
			time.Sleep(10 * time.Second)
		}}
		slow.SetArgs([]string{})
		cli.Main(slow)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestASecondSignalEndsTheProcess$")
	cmd.Env = append(os.Environ(), "SETPOINT_TEST_SIGNALS=yes")
	out, err := cmd.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for _, want := range []string{"begun", "ending"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it printed %q, want %q", lines.Text(), want)
		}
		fatal.If(t, cmd.Process.Signal(syscall.SIGINT))
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v, not by the second signal", cmd.ProcessState)
	}
}
