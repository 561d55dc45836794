//go:build linux

// Package kubetest runs the control plane of Kubernetes for tests, as processes: etcd,
// kube-apiserver with RBAC and an audit log, and kube-controller-manager, with the
// native controller of HorizontalPodAutoscalers or without.
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
//
//	c := kubetest.Shared(t) // or Start, for one of its own
//	namespace := c.Namespace(t, "shop")
//	c.Client().AppsV1().Deployments(namespace).Create(…)
//	c.Metrics.SetCPU(namespace, "web", 1500) // shared by the pods with app=web
//
// The test process plays kubelet, so pods run as soon as they are made, and metrics
// server, so usage follows from the load that was set. There are no nodes, containers
// or networks.
//
// Programs are built by scripts/control-plane.sh where they are missing, which takes
// minutes the first time. Servers listen on loopback, and none
// outlives the test process, however that ends.
package kubetest
