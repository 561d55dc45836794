// Command platform is the agent of a made-up platform: a folder of pools, whose processes work off
// files. It is the skeleton of an adapter, which platform.go is, and of its program; agents of this
// repository have cmd/internal/agentcmd for the latter, with flags, status, doctor and metrics.
//
//	go run ./platform -server 127.0.0.1:9090 platform/pools
package main

import (
	"context"
	"flag"
	"log"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

func main() {
	server := flag.String("server", "127.0.0.1:9090", "`address` of the service, without TLS")
	flag.Parse()
	if err := run(*server, platform{flag.Arg(0)}); err != nil {
		log.Fatal(err)
	}
}

func run(server string, p platform) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client, err := setpoint.New(server, setpoint.WithInsecure())
	if err != nil {
		return err
	}
	defer client.Close()
	lines, err := zap.NewDevelopment(zap.AddStacktrace(zap.FatalLevel))
	if err != nil {
		return err
	}
	driver, err := agent.NewDriver(p, agent.Service{Calls: client, Stream: client.Stream(0)},
		agent.Options{Cluster: "pools", Period: 5 * time.Second, Log: lines}, agent.DriverOptions{})
	if err != nil {
		return err
	}
	go p.supervise(ctx)
	return driver.Run(ctx)
}

// supervise starts and stops processes as the files say, once a second.
func (p platform) supervise(ctx context.Context) {
	running := map[string][]context.CancelFunc{}
	for {
		folders, _ := filepath.Glob(filepath.Join(p.folder, "*"))
		for _, folder := range folders {
			name := filepath.Base(folder)
			read, _, err := p.read(name)
			workers, failed := p.workers(name)
			if err != nil || failed != nil || len(read.Command) == 0 {
				continue
			}
			for len(running[name]) < int(workers) {
				worker, stop := context.WithCancel(ctx)
				running[name] = append(running[name], stop)
				go work(worker, folder, read.Command)
			}
			for len(running[name]) > int(workers) {
				last := len(running[name]) - 1
				running[name][last]()
				running[name] = running[name][:last]
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// work runs a command in a folder again and again.
func work(ctx context.Context, folder string, command []string) {
	for ctx.Err() == nil {
		process := exec.CommandContext(ctx, command[0], command[1:]...)
		process.Dir = folder
		if err := process.Run(); err != nil {
			log.Printf("%s: %v", folder, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
