// Package deploy tests what deploy/ has for users, with the real programs: the image is built
// and run by a dockerd of the tests' own, the compose file by docker-compose, whose parts are
// killed; the manifests are applied to an API server, and their containers run by that dockerd
// as a kubelet would.
//
// dockerd needs root, and the programs that scripts/docker.sh installs. Without root these
// tests are skipped; without the programs too, or they fail if CI is set. They use no registry:
// Redis and the load balancer run from images made of this machine's own programs.
package deploy
