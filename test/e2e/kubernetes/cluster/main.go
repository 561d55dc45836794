//go:build linux

// The command cluster runs the kit's cluster until it is interrupted, for the documentation:
//
//	cluster FOLDER
//
// It keeps its files in the folder, and the last one that it writes is FOLDER/config, the
// administrator's kubeconfig. FOLDER/bin has kubectl. Namespace shop has the pages' example: a
// Deployment web of 5 ready replicas and its HorizontalPodAutoscaler, which keeps the CPU
// utilization at 60 percent, between 2 and 20 replicas, with a load that is 54 percent of what
// they request: within the tolerance.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: registry.example.com/web, resources: {requests: {cpu: 500m, memory: 256Mi}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cluster FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) (err error) {
	if err := os.MkdirAll(filepath.Join(folder, "bin"), 0o755); err != nil {
		return err
	}
	cluster, err := kubetest.Open(folder, kubetest.Config{Native: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	cluster.Metrics.SetCPU("shop", "web", 1350)
	if said, err := cluster.TryKubectl(objects, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	if said, err := cluster.TryKubectl("", "-n", "shop", "rollout", "status", "deployment/web", "--timeout=60s"); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	kubectl := cluster.KubectlCommand("version").Path
	if err := os.Symlink(kubectl, filepath.Join(folder, "bin", "kubectl")); err != nil {
		return err
	}
	config, err := os.ReadFile(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "config"), config, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
