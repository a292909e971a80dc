import multiprocessing

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(str, range(3)))
