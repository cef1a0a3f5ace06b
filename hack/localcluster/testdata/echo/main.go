// Command echo is the image of the cluster test: it serves its pod's name on 8080 of LISTEN_HOST, is ready unless a
// file says no, has a child that would outlive it, and says bye on SIGTERM.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	dir := os.Args[1]
	fmt.Println("hello from", os.Getenv("POD_NAME"), "greeting", os.Getenv("GREETING"))
	if err := exec.Command("sleep", "3600").Start(); err != nil {
		fmt.Println("no child:", err)
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "unready")); err == nil {
			http.Error(w, "told not to be ready", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getenv("POD_NAME")) })
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() { panic(http.ListenAndServe(net.JoinHostPort(os.Getenv("LISTEN_HOST"), "8080"), nil)) }()
	<-term
	fmt.Println("bye")
}
