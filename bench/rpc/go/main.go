// A grpc-go server for bench/rpc: what ours is compared with. Three methods of grpc.testing.TestService, as in the
// C++ servers beside it: UnaryCall answers at once, CacheableUnaryCall asks the backend first, EmptyCall waits until
// it is cancelled.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

type server struct {
	pb.UnimplementedTestServiceServer
	backend pb.TestServiceClient
}

func (s *server) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (s *server) CacheableUnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.backend.UnaryCall(ctx, in)
}

func (s *server) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func main() {
	backend := flag.String("backend", "", "address of the server that CacheableUnaryCall asks")
	cert := flag.String("cert", "", "certificate; without one, no TLS")
	key := flag.String("key", "", "its key")
	flag.Parse()
	s := &server{}
	if *backend != "" {
		conn, err := grpc.NewClient(*backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		s.backend = pb.NewTestServiceClient(conn)
	}
	var options []grpc.ServerOption
	if *cert != "" {
		credentials, err := credentials.NewServerTLSFromFile(*cert, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", listener.Addr())
	go func() {
		bufio.NewReader(os.Stdin).ReadByte() // Ends with its input.
		os.Exit(0)
	}()
	g := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(g, s)
	log.Fatal(g.Serve(listener))
}
