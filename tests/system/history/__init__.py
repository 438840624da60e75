"""Recorded histories of the queue API on a real server under faults, and the rules that each of them must obey.

    records    what a history is made of, and how it is kept in a file
    checker    the rules: pure, knows no server
    proxy      a TCP proxy that loses replies and cuts connections
    workload   concurrent clients that record every call
    nemesis    the plan of faults, from a seed
    run        one run: server, clients, faults, drain, check
"""
