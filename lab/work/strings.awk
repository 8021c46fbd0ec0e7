BEGIN { srand(1); for (i = 0; i < 200000; i++) { k = int(rand() * 30000); t[k] = t[k] " " i
        if (length(t[k]) > 60) t[k] = "" } for (k in t) n += length(t[k]); print n }
